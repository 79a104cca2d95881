"""``agent-env check`` as it is typed."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from support.bundles import ENV, TOML, jsonl, task, write_bundle


def agent_env(*arguments, cwd):
    command = [sys.executable, "-m", "agent_env.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)


def test_what_keeps_it_from_being_loaded_is_lines_and_status_2(tmp_path):
    tasks = jsonl(task("a"), task("a"), task("b", sed=1))
    write_bundle(tmp_path / "bad", {"tasks/train.jsonl": tasks})
    check = agent_env("check", "bad", cwd=tmp_path)
    assert check.returncode == 2
    assert check.stdout.splitlines() == [
        "tasks/train.jsonl:3 sed: unknown key 'sed' (did you mean 'seed'?)",
        "tasks/train.jsonl:2: the id 'a' is taken by tasks/train.jsonl:1 (rename it)",
        "bad: cannot be loaded: 2 findings",
    ]


def test_a_syntax_error_is_a_line_with_its_place_and_status_2(tmp_path):
    write_bundle(tmp_path / "bad", {"bundle.toml": TOML + "reward = mean\n"})
    check = agent_env("check", "bad", cwd=tmp_path)
    assert check.returncode == 2
    assert check.stdout.startswith("bundle.toml:5: not TOML: ")


def test_what_is_no_bundle_is_status_2(tmp_path):
    check = agent_env("check", ".", cwd=tmp_path)
    assert (check.returncode, check.stdout) == (2, "")
    assert check.stderr.startswith("agent-env: .: is a folder without a bundle.toml")


def test_a_built_in_bundle_is_sound(tmp_path):
    check = agent_env("check", "inbox", cwd=tmp_path)
    assert (check.returncode, check.stderr) == (0, "")
    assert check.stdout.startswith("inbox: 140 tasks, 2 splits, 2 tools; played 164 episodes")


def test_a_finding_of_several_lines_is_one_line_and_status_1(tmp_path):
    raising = ENV.replace("self.value += amount", 'raise ValueError("one\\n  two\\n")')
    write_bundle(tmp_path / "bad", {"env.py": raising})
    check = agent_env("check", "bad", cwd=tmp_path)
    assert check.returncode == 1
    first, *_, last = check.stdout.splitlines()
    assert "ValueError: one two (raise ToolError" in first
    assert len(check.stdout.splitlines()) == int(last.rsplit(": ", 1)[1].split()[0]) + 1


BLOCKING = """
        import os, subprocess, sys, time
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        with open(FILE + ".part", "w") as file:
            file.write(f"{os.getpid()} {other.pid}")
        os.replace(FILE + ".part", FILE)
        time.sleep(600)
"""


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_check_that_is_ended_leaves_no_process_and_no_folder(tmp_path, number):
    up, temporary = tmp_path / "up", tmp_path / "tmp"
    temporary.mkdir()
    env = ENV.replace(
        "        self.value = task", BLOCKING.replace("FILE", repr(str(up))) + "        self.value = task"
    )
    write_bundle(tmp_path / "bad", {"env.py": env})
    command = [sys.executable, "-m", "agent_env.cli.main", "check", "bad"]
    check = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL
    )
    wait_for(up.exists)
    pids = [int(pid) for pid in up.read_text().split()]
    assert list(temporary.iterdir())
    check.send_signal(number)
    assert check.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
    wait_for(lambda: all(map(gone, pids)))
    # Who is killed removes nothing: its guardian does.
    wait_for(lambda: not list(temporary.iterdir()))


def test_what_a_long_wait_is_for_is_said(tmp_path):
    write_bundle(tmp_path / "slow", {"env.py": "import time\ntime.sleep(600)\n" + ENV})
    command = [sys.executable, "-m", "agent_env.cli.main", "check", "slow"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as check:
        assert check.stderr is not None
        assert re.fullmatch(r"checking slow: loading the bundle for 1\d s \(at most 75 s\)\n", check.stderr.readline())
        check.send_signal(signal.SIGINT)
        assert check.wait(60) == 130
        assert check.stderr.read() == (
            "agent-env: stopped: the check is not through; it stood at loading the bundle, 0 episodes played\n"
        )
