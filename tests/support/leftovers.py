"""Fails a run of the tests that leaves a process or a thread behind.

Every process that a test starts inherits a variable that is unique to the run, so an orphan is found as well as a
child; pytest's own ``PYTEST_CURRENT_TEST``, inherited too, says which test started it. Of the threads, those count
that would keep the interpreter from exiting and those that run our code.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil
import pytest

RUN = "AGENT_ENV_TEST_RUN"
GRACE = 10.0
"""Seconds that a process or thread which is already on its way out has to be gone."""

_Item = TypeVar("_Item")
_found = pytest.StashKey[list[str]]()
_started_in = pytest.StashKey[dict[int, str]]()


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[_found] = []
    config.stash[_started_in] = {}
    if not is_worker(config):
        os.environ[RUN] = secrets.token_hex(8)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = {thread.ident for thread in threading.enumerate()}
    result = yield
    for thread in threading.enumerate():
        if thread.ident is not None and thread.ident not in before:
            item.config.stash[_started_in][thread.ident] = item.nodeid
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    found = config.stash[_found]
    found += [describe_thread(thread, config) for thread in remaining(threads)]
    leaked = remaining(own_children if is_worker(config) else processes_of_the_run)
    found += [describe_process(process) for process in leaked]
    for process in leaked:
        with contextlib.suppress(psutil.Error):
            process.kill()
    if is_worker(config):
        config.workeroutput["leftovers"] = found  # type: ignore[attr-defined]
    elif found and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[_found] += output.get("leftovers", [])  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[_found]:
        terminalreporter.section("left behind by the tests, so this run has failed", red=True, bold=True)
        for line in config.stash[_found]:
            terminalreporter.line(line)


def remaining(find: Callable[[], list[_Item]]) -> list[_Item]:
    """What `find` still finds once `GRACE` has passed; returns at once when it finds nothing."""
    deadline = time.monotonic() + GRACE
    while (items := find()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return items


def threads() -> list[threading.Thread]:
    """The living threads that a test should have ended."""
    return [
        thread
        for thread in threading.enumerate()
        if thread not in (threading.main_thread(), threading.current_thread())
        and not module_of(thread).startswith(("execnet", "xdist", "pytest_timeout"))
        and (not thread.daemon or module_of(thread).startswith("agent_env"))
    ]


def module_of(thread: threading.Thread) -> str:
    """The module whose code `thread` was started with."""
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", None) or type(thread).__module__


def own_children() -> list[psutil.Process]:
    """Descendants of this process but multiprocessing's own helpers, which by design live as long as it does."""
    return [child for child in psutil.Process().children(recursive=True) if is_alive(child) and not is_helper(child)]


def processes_of_the_run() -> list[psutil.Process]:
    """Every process that carries the run's variable, and this one's descendants; not this one itself."""
    mark = os.environ[RUN]
    found = {process.pid: process for process in own_children()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(RUN) == mark and is_alive(process):
                found[process.pid] = process
    return [process for process in found.values() if not is_helper(process)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_helper(process: psutil.Process) -> bool:
    """Whether it is the resource tracker or fork server of this interpreter's multiprocessing."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return process.pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None))


def describe_process(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        test = process.environ().get("PYTEST_CURRENT_TEST", "an unknown test")
        return f"process {process.pid}, started in {test}: {' '.join(process.cmdline())[:200]}"
    return f"process {process.pid}"


def describe_thread(thread: threading.Thread, config: pytest.Config) -> str:
    test = config.stash[_started_in].get(thread.ident or 0, "an unknown test")
    return f"thread {thread.name!r} of {module_of(thread)}, started in {test}"
