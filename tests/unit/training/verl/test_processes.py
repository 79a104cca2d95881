"""Processes of a run end with it, whatever they do against it."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from agent_env.training.verl.processes import SOCKET_PATH, Processes

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# one that leaves the group and the session, as Ray's servers do, and ignores signals too
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
other = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
other.stdout.readline()
print(os.getpid(), other.pid, flush=True)
time.sleep(600)
"""


def gone(pid, within=15.0):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def start(processes, code):
    pipes = {"output": subprocess.PIPE, "errors": subprocess.STDOUT}
    return processes.start([sys.executable, "-c", code], environment=os.environ, **pipes)


def test_children_and_what_they_started_end_at_the_end(monkeypatch):
    monkeypatch.setattr("agent_env.training.verl.processes.GRACE", 0.5)
    with Processes() as processes:
        child = start(processes, STUBBORN)
        pids = [int(pid) for pid in child.stdout.readline().split()]
        assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
    child.stdout.close()


def test_children_are_asked_before_they_are_killed(tmp_path):
    code = f"""
import signal, sys, time
def tidy(*_):
    open({str(tmp_path / "tidied")!r}, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
print("up", flush=True)
time.sleep(600)
"""
    with Processes() as processes:
        child = start(processes, code)
        child.stdout.readline()
    assert (tmp_path / "tidied").exists()
    assert child.returncode == 0
    child.stdout.close()


LAUNCHER = """
import os, subprocess, sys, time
from agent_env.stopping import Stopped, stopping
from agent_env.training.verl.processes import Processes
try:
    with stopping(), Processes() as processes:
        child = processes.start([sys.executable, "-c", STUBBORN], environment=os.environ,
                                output=subprocess.PIPE, errors=subprocess.STDOUT)
        print(child.stdout.readline().strip(), flush=True)
        time.sleep(600)
except Stopped as stopped:
    sys.exit(100 + stopped.number)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_signal_to_the_launcher_leaves_a_process(number):
    code = f"STUBBORN = {STUBBORN!r}\n" + textwrap.dedent(LAUNCHER).replace(
        "import os,", "import agent_env.training.verl.processes as p; p.GRACE = 0.5\nimport os,", 1
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in launcher.stdout.readline().split()]
    launcher.send_signal(number)
    if number in (signal.SIGINT, signal.SIGTERM):
        time.sleep(0.1)
        launcher.send_signal(number)  # an impatient second one changes nothing
    code = launcher.wait(30)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 100 + number)
    assert all(gone(pid) for pid in pids)
    launcher.stdout.close()


HOLDER = """
import signal, sys, time
from multiprocessing.shared_memory import SharedMemory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = SharedMemory(create=True, size=64)
print(held.name, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_shared_memory_of_a_process_that_was_killed_is_left(number):
    code = f"STUBBORN = {HOLDER!r}\n" + textwrap.dedent(LAUNCHER).replace(
        "import os,", "import agent_env.training.verl.processes as p; p.GRACE = 0.5\nimport os,", 1
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    segment = Path("/dev/shm", launcher.stdout.readline().strip())
    assert segment.exists()
    launcher.send_signal(number)
    launcher.wait(30)
    launcher.stdout.close()
    deadline = time.monotonic() + 15
    while segment.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not segment.exists()


UNTRACKED = """
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
held = SharedMemory(create=True, size=64)
resource_tracker.unregister(held._name, "shared_memory")  # as if the tracker had been killed with it
print(held.name, flush=True)
time.sleep(600)
"""


def test_shared_memory_that_was_seen_is_removed_if_nobody_holds_it():
    foreign = SharedMemory(create=True, size=64)  # held by this process, which is none of the run's
    try:
        with Processes() as processes:
            child = start(processes, UNTRACKED)
            ours = Path("/dev/shm", child.stdout.readline().strip())
            processes.note_shared_memory()
            assert ours.exists()
            os.kill(child.pid, signal.SIGKILL)
        assert not ours.exists()
        assert Path("/dev/shm", foreign.name).exists()
    finally:
        child.stdout.close()
        foreign.close()
        foreign.unlink()


def test_rays_folder_is_short_enough_for_its_sockets_and_goes(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Processes() as processes, processes.ray_folder() as folder:
        socket = folder / "ray" / "session_2026-01-01_00-00-00_000000_1234567" / "sockets" / "plasma_store"
        assert len(str(socket)) < SOCKET_PATH
        (folder / "ray").mkdir()
    assert not folder.exists()


@pytest.mark.parametrize("number", [0, signal.SIGKILL])
def test_temporary_files_go_with_the_process_that_has_them(tmp_path, number):
    code = f"""
import os
from agent_env.training.verl.processes import Processes
with Processes() as processes, processes.scratch("mine-") as folder:
    (folder / "file").write_text("")
    print(folder, flush=True)
    {f"os.kill(os.getpid(), {number:d})" if number else "pass"}
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == -number
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    assert folder.name.startswith("mine-")
    deadline = time.monotonic() + 30
    while folder.exists():
        assert time.monotonic() < deadline, "the folder stayed"
        time.sleep(0.05)
