"""A task server that a test stops, kills and starts again on the port it had."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from support.servers import Server, serving


class Restarting:
    """``agent-env serve BUNDLE`` in a process of its own; running when made."""

    def __init__(self, bundle: Path | str, *options: str) -> None:
        self._bundle, self._options = bundle, options
        self._running = contextlib.ExitStack()
        self._server: Server | None = None
        self.url = ""
        self.start()

    @property
    def pid(self) -> int:
        """Process id of the server that runs."""
        assert self._server is not None
        return self._server.process.pid

    def start(self) -> None:
        """Start it, and return once it answers."""
        port = self.url.rpartition(":")[2] or "0"
        self._server = self._running.enter_context(serving(self._bundle, *self._options, "--port", port))
        self.url = self._server.url

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal, if it runs, and return once it is gone."""
        if self._server is not None:
            self._server.stop(number)
        self._server = None
        self._running.close()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.stop(signal.SIGKILL)
