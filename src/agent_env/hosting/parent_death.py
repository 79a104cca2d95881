"""A process that dies with the one that started it.

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

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose process id is `parent`, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # It ended before the kernel was told.
        os._exit(1)


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
