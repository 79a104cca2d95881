"""Ends what environments started, when the server ends in any way, be it ``kill -9``.

A server that is killed cannot tidy up, and what its environments started (a browser, a game's Java) would live on. So a
guardian, a process with nothing else to do, waits for the server to end. Everything started from then on carries the
server's mark in its environment, and so does what that starts: the guardian kills whatever still carries it, and what
descends from that. Python's resource trackers, which remove the shared memory of processes that could not, get a moment
to do so first. It is run as a script and imports nothing of ours, so it costs little. Then it removes the folders
that it was told of.

It reads ``/proc``; on a system without one there is no guardian. A process that was executed with an emptied
environment carries no mark, nor does one that has written its title over its environment, as some of Ray's do: those
are found as long as a parent of theirs lives. Worker processes (``hosting.mode = "processes"``) die otherwise.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "AGENT_ENV_SERVER"
"""The environment variable whose value marks a server's offspring."""
SWEEP_FOR = 1.5
"""Seconds of looking for processes to kill; one may start another while it is being looked for."""
TIDY_FOR = 1.0
"""Seconds of those that resource trackers have, from when what they track for was killed."""
POLL = 0.25
"""Seconds between two looks whether the server is still there."""
PROC = Path("/proc")


class Guardian:
    """Watches over this process from now until `close`, or its end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if not PROC.is_dir():
            return
        mark = secrets.token_hex(16)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Only now, so that the guardian does not carry the mark itself.
        os.environ[MARK] = mark

    @contextlib.contextmanager
    def scratch(self, prefix: str, root: str | None = None) -> Iterator[Path]:
        """A new folder for temporary files that is gone after the block, or after this process, however that ends.

        Args:
            prefix: of its name, which has 16 characters more.
            root: where it is made; the system's place for temporary files if None.
        """
        folder = Path(root or tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}").absolute()
        if self._process is not None:
            assert self._process.stdin is not None
            # Told before it is there, so that there is no moment in which nobody would remove it.
            os.write(self._process.stdin.fileno(), os.fsencode(folder) + b"\0")
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Have it sweep now; waits until it has."""
        os.environ.pop(MARK, None)
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(2 * SWEEP_FOR)


def offspring(mark: str) -> dict[int, str]:
    """The living processes that carry `mark`, and the descendants of those: process id to when it started."""
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    found: set[int] = set()
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or (seen := _look(int(entry.name))) is None:
            continue
        pid = int(entry.name)
        parents[pid], started[pid] = seen
        if _carries(pid, mark):
            found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: started[pid] for pid in found}


def kill(processes: dict[int, str]) -> None:
    """Kill those of `processes`, as `offspring` returns them, that still live."""
    for pid, started in processes.items():
        seen = _look(pid)
        if seen is not None and seen[1] == started:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def tidying(processes: dict[int, str]) -> dict[int, str]:
    """Those of `processes` that are resource trackers of Python's: they end by themselves once no one uses them."""
    return {pid: started for pid, started in processes.items() if _tracks(pid)}


def _tracks(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


def _look(pid: int) -> tuple[int, str] | None:
    """The parent of a living process, and when it started, in ticks since the system did (proc(5))."""
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def _carries(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def main() -> None:
    """Wait for the server's end, kill its offspring, then remove the folders that the server told of."""
    server, told = os.getppid(), b""
    # The pipe alone would not do: what the server forks without executing holds its other end open.
    while os.getppid() == server:
        if select.select([0], [], [], POLL)[0]:
            more = os.read(0, 1 << 16)
            if not more:
                break
            told += more
    while select.select([0], [], [], 0)[0] and (more := os.read(0, 1 << 16)):
        told += more
    started = time.monotonic()
    quiet = 0
    while quiet < 2 and (passed := time.monotonic() - started) < SWEEP_FOR:
        found = offspring(sys.argv[1])
        quiet = 0 if found else quiet + 1
        spared = tidying(found) if passed < TIDY_FOR else {}
        kill({pid: begun for pid, begun in found.items() if pid not in spared})
        time.sleep(0.02)
    for folder in told.split(b"\0")[:-1]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
