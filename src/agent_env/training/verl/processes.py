"""The processes of a run: each in a group of its own, and none left when the run ends, however it ends.

verl starts Ray, Ray its servers and workers, and those start more; some leave their parents' groups. So every process
inherits a mark in its environment, by which a guardian, which outlives even a launcher that is killed, finds and ends
what is left (`agent_env.hosting.guardian`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agent_env.hosting.guardian import Guardian
from agent_env.stopping import signals_wait

GRACE = 15.0
"""Seconds for verl and Ray to end by themselves."""
PREFIX = "ae-"
"""How the name of Ray's folder begins."""
SOCKET_PATH = 107
"""The longest path of a Unix socket; Ray puts its sockets about 60 characters below its folder."""


class Processes:
    """Children of a run; use as a context manager, whose end ends them all.

    Attributes:
        children: in the order in which they were started.
    """

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[Any]] = []
        self._guardian: Guardian | None = None

    def __enter__(self) -> Processes:
        self._guardian = Guardian()
        return self

    def __exit__(self, *_: object) -> None:
        with signals_wait():
            for child in reversed(self.children):
                _signal_group(child, signal.SIGTERM)
            deadline = time.monotonic() + GRACE
            for child in self.children:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, deadline - time.monotonic()))
            for child in self.children:
                _signal_group(child, signal.SIGKILL)
                child.wait()
            assert self._guardian is not None
            self._guardian.close()

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str], output: IO[Any] | int, errors: IO[Any] | int
    ) -> subprocess.Popen[Any]:
        """Start a child in a process group of its own, without this terminal's input."""
        child = subprocess.Popen(
            command,
            env={**environment, **_mark()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            text=True,
        )
        self.children.append(child)
        return child


def _mark() -> dict[str, str]:
    from agent_env.hosting.guardian import MARK

    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


def _signal_group(child: subprocess.Popen[Any], number: int) -> None:
    # The group may outlive its leader: a leader that has ended is no reason not to signal it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


@contextlib.contextmanager
def ray_folder(note: Path) -> Iterator[Path]:
    """A folder for Ray alone, with a path short enough for its sockets; removed at the end.

    Args:
        note: a file that says meanwhile where it is: the next call removes what one that was killed has left.
    """
    if note.exists():
        left = Path(note.read_text(encoding="utf-8"))
        if left.name.startswith(PREFIX):
            shutil.rmtree(left, ignore_errors=True)
    roots = [root for root in (tempfile.gettempdir(), "/tmp", "/dev/shm") if len(root) + 80 < SOCKET_PATH]
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=roots[0] if roots else None))
    try:
        note.write_text(str(folder), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)
