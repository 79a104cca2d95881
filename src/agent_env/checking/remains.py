"""What episodes leave behind in a process: threads, asyncio tasks, open files and processes (these on Linux only)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
import time
from pathlib import Path

MARK = "AGENT_ENV_CHECK"
"""Environment variable that marks a check's process and whatever it starts."""

WHERE = signal.SIGUSR1
"""On this signal a check's process writes to stderr where each of its threads is."""

_SETTLE = 2.0
_DESCRIPTORS = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")


def remains() -> dict[str, list[str]]:
    """What there is now, by kind, each with its name. To be called in a running event loop."""
    gc.collect()
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    own = str(os.getpid())
    return {
        "threads": threads,
        "asyncio tasks": [_coroutine(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()],
        "open files": _descriptors(),
        "processes": [name for pid, name in marked(os.environ.get(MARK, "")).items() if pid != own],
    }


async def growth(before: dict[str, list[str]], settle: float = _SETTLE) -> dict[str, list[str]]:
    """What there is more of than `before`, once what is on its way out had up to `settle` seconds to go."""
    deadline = time.monotonic() + settle
    while True:
        more = {kind: _surplus(names, before[kind]) for kind, names in remains().items()}
        more = {kind: names for kind, names in more.items() if names}
        if not more or time.monotonic() > deadline:
            return more
        await asyncio.sleep(0.05)


def _surplus(now: list[str], before: list[str]) -> list[str]:
    """The names of `now` beyond those of `before`, if there are more of them at all."""
    extra = list(now)
    for name in before:
        if name in extra:
            extra.remove(name)
    return extra[: max(0, len(now) - len(before))]


def marked(mark: str) -> dict[str, str]:
    """Living processes whose environment holds the mark: pid to command line. None where there is no /proc."""
    found: dict[str, str] = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[folder.name] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                )
    return found


def _coroutine(task: asyncio.Task[object]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _descriptors() -> list[str]:
    names = []
    for entry in _DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this very listing is gone again
            names.append(os.readlink(entry) if entry.is_symlink() else entry.name)
    return names
