"""The processes of a run: each in a group of its own, and none left when the run ends, however it ends.

verl starts Ray, Ray its servers and workers, and those start more; some leave their parents' groups. So every process
inherits a mark in its environment, by which a guardian, which outlives even a launcher that is killed, finds and ends
what is left, with its descendants (`agent_env.hosting.guardian`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from agent_env.hosting.guardian import MARK, PROC, Guardian, kill, offspring, tidying
from agent_env.stopping import signals_wait

SEGMENT = re.compile(r"/dev/shm/psm_[0-9a-f]+$", re.MULTILINE)
"""A segment that `multiprocessing.shared_memory` named, in a process's memory map."""
GRACE = 15.0
"""Seconds for verl and Ray to end by themselves."""
SOCKET_PATH = 107
"""The longest path of a Unix socket."""
BELOW = 90
"""Characters of a path that Ray's longest socket is below the place that its folder is made in."""


class Processes:
    """Children of a run; use as a context manager, whose end ends them all.

    Attributes:
        children: in the order in which they were started.
    """

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[Any]] = []
        self._segments: set[Path] = set()
        self._guardian: Guardian | None = None

    def __enter__(self) -> Processes:
        self._guardian = Guardian()
        return self

    def __exit__(self, *_: object) -> None:
        with signals_wait():
            every = offspring(os.environ[MARK]) if MARK in os.environ else {}
            for child in reversed(self.children):
                _signal_group(child, signal.SIGTERM)
            deadline = time.monotonic() + GRACE
            for child in self.children:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(0.0, deadline - time.monotonic()))
            # The guardian would not find one that has overwritten its environment and whose parent has ended. Nor would
            # it be in time: a child that does not end by itself may hold what another one waits for.
            spared = tidying(every)
            kill({pid: started for pid, started in every.items() if pid not in spared})
            assert self._guardian is not None
            self._guardian.close()
            for child in self.children:
                _signal_group(child, signal.SIGKILL)
                child.wait()
            if self._segments:
                in_use = _segments_of(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())
                for segment in self._segments - in_use:
                    segment.unlink(missing_ok=True)

    def note_shared_memory(self) -> None:
        """Remember what shared memory the children and theirs hold now, to remove what is left of it at the end.

        Ray kills vLLM's processes together with the resource trackers that would have done so.
        """
        if MARK in os.environ:
            self._segments |= _segments_of(offspring(os.environ[MARK]))

    def scratch(self, prefix: str) -> contextlib.AbstractContextManager[Path]:
        """A new folder for temporary files, for use within the context; gone even if this process is killed."""
        assert self._guardian is not None
        return self._guardian.scratch(prefix)

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

    @contextlib.contextmanager
    def ray_folder(self) -> Iterator[Path]:
        """A folder for Ray alone, its path short enough for sockets; gone with the processes, however they end."""
        assert self._guardian is not None
        roots = (tempfile.gettempdir(), "/tmp", "/dev/shm")
        short = (root for root in roots if len(root) + BELOW < SOCKET_PATH)
        with self._guardian.scratch("ae-", next(short, None)) as folder:
            yield folder


def _segments_of(pids: Iterable[int]) -> set[Path]:
    """The segments of shared memory that processes hold which Python made and named."""
    found: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {Path(name) for name in SEGMENT.findall((PROC / str(pid) / "maps").read_text(errors="replace"))}
    return found


def _mark() -> dict[str, str]:
    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


def _signal_group(child: subprocess.Popen[Any], number: int) -> None:
    # The group may outlive its leader: a leader that has ended is no reason not to signal it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
