"""A server's log on stderr, written by a thread of its own.

Whoever reads the log may stop reading (a pipe that nobody empties, a terminal on which somebody pressed Ctrl-S), and
an environment may print without end. Writing then blocks, for as long as that lasts, and must not block the server.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading

LINES = 10_000
"""Records that wait to be written at most; what comes on top is counted, and left out."""
LAST_WORDS = 2.0
"""Seconds at the end for what waits to be written."""


class BackgroundLog(logging.Handler):
    """Hands every record, as text, to the thread that writes it."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str | None] = queue.Queue(LINES)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._left_out += 1
        except Exception:
            self.handleError(record)

    def finish(self) -> None:
        """Write what waits, and what environments have printed; gives up after `LAST_WORDS`."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(LAST_WORDS)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            left_out, self._left_out = self._left_out, 0
            more = f"({left_out} lines left out here: nobody read the log)\n" if left_out else ""
            with contextlib.suppress(OSError, ValueError):  # closed: there is nobody left to tell
                sys.stderr.write(f"{line}\n{more}")
                sys.stderr.flush()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
