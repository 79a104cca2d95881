"""A guardian whose process ends, politely and not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from agent_env.hosting.guardian import MARK, offspring
from support.waiting import within

# Starts a marked child that no parent would end, and one that was there before, and tells their numbers.
SERVER = """
import os, subprocess, sys
from agent_env.hosting.guardian import MARK, Guardian

def start():
    return subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True).pid

before = start()
guardian = Guardian()
after = start()
# A grandchild whose parent has gone.
code = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid)"
orphan = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip()
# One without the mark, whose parent has it.
code = "import subprocess; print(subprocess.Popen(['sleep', '600'], env={}).pid, flush=True); time.sleep(600)"
parent = subprocess.Popen([sys.executable, "-c", "import time; " + code], stdout=subprocess.PIPE, text=True)
unmarked = parent.stdout.readline().strip()
print(before, after, orphan, parent.pid, unmarked, os.environ[MARK], flush=True)
sys.stdin.readline()
guardian.close()
print(MARK in os.environ, flush=True)
"""


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("how", ["close", "SIGKILL"])
def test_what_carries_the_mark_ends_with_the_server_and_nothing_else_does(how: str) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    pids: list[int] = []
    try:
        *numbers, mark = server.stdout.readline().split()
        pids += map(int, numbers)
        before, *after = pids
        assert set(offspring(mark)) == set(after)
        if how == "close":
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "False\n"
        else:
            server.kill()
        ended = time.monotonic()
        while any(is_alive(pid) for pid in after):
            assert time.monotonic() - ended < within(2.0)
            time.sleep(0.01)
        assert is_alive(before)
    finally:
        server.kill()
        server.communicate()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


def test_the_mark_is_not_this_processes() -> None:
    assert MARK not in os.environ
