"""A run that leaves a process or a thread behind has failed, and says which test did it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from support import leftovers

TESTS = Path(leftovers.__file__).parent.parent


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.delenv(leftovers.RUN)


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makeconftest("from support import leftovers\nleftovers.GRACE = 1.0")
    pytester.makepyfile(f"import subprocess, sys, threading\n{body}")
    return pytester.runpytest_subprocess("-p", "support.leftovers", *options, timeout=60)


ORPHAN = """
def test_orphans():
    # the shell exits at once; its child belongs to no one
    subprocess.run("sleep 300 & echo $! > pid", shell=True, check=True)
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_an_orphan_fails_the_run_and_is_ended(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = run(pytester, ORPHAN, *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["process *, started in *test_orphans (call): sleep 300"])
    orphan = int((pytester.path / "pid").read_text())
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_thread_that_would_keep_the_interpreter_alive_fails_the_run(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        "def test_thread():\n    threading.Thread(target=threading.Event().wait, args=(5,), name='lost').start()\n",
        *options,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["thread 'lost' of threading, started in *test_thread"])


def test_what_ends_within_the_grace_is_fine(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_short():\n    subprocess.Popen(['sleep', '0.2'])\n", "-W", "ignore")
    assert result.ret == pytest.ExitCode.OK
