"""A process that dies with the one that started it, and one that its descendants cannot escape.

On Linux the kernel does it (``PR_SET_PDEATHSIG``), even to code that holds the interpreter's lock for ever. Everywhere
a thread also watches the socket to the other side, and ends the process with its whole group when that closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose process id is `parent`, ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before the kernel was told.
        os._exit(1)


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of those below it whose own parents end (Linux only)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Process ids of this process's children; none where the system does not tell."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_when_closed(fd: int) -> None:
    """Kill this process's group when the other end of the socket `fd` closes. Reads nothing from it."""
    watched = os.dup(fd)
    threading.Thread(target=_watch, args=(watched,), name="parent-watch", daemon=True).start()


def _watch(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # no event but the hang-up, which is always reported
    poll.poll()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGKILL)
