"""Ends what environments started, when the server ends in any way, be it ``kill -9``.

A server that is killed cannot tidy up, and what its environments started (a browser, a game's Java) would live on. So a
guardian, a process with nothing else to do, waits for the server to end. Everything started from then on carries the
server's mark in its environment, and so does what that starts: the guardian kills whatever still carries it. It is run
as a script and imports nothing of ours, so it costs little. Then it removes the folders that it was told of.

It reads ``/proc``; on a system without one there is no guardian. A process that was forked without being executed, or
executed with an emptied environment, carries no mark: worker processes (``hosting.mode = "processes"``) die otherwise.
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
    def scratch(self, prefix: str) -> Iterator[Path]:
        """A new folder for temporary files that is gone after the block, or after this process, however that ends."""
        folder = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}").absolute()
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


def marked(mark: str) -> list[int]:
    """Process ids of all living processes that carry `mark`."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in variables:
            found.append(int(entry.name))
    return found


def main() -> None:
    """Wait for the server's end, kill what carries the mark, then remove the folders that the server told of."""
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
    deadline = time.monotonic() + SWEEP_FOR
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        found = marked(sys.argv[1])
        quiet = 0 if found else quiet + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.02)
    for folder in told.split(b"\0")[:-1]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
