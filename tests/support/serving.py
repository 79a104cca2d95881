"""A task server in a process of its own: started, stopped, killed and started again on the port it had."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path


class Serving:
    """``agent-env serve BUNDLE`` running.

    Args:
        bundle: a folder, or the name of a built-in one.
        options: of the command.
        env: variables it gets besides this process's.
    """

    def __init__(self, bundle: str | Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self._command = [str(Path(sys.executable).with_name("agent-env")), "serve", str(bundle), *options]
        self._env = {**os.environ, **(env or {})}
        self.port = 0
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def pid(self) -> int:
        """Of the server's process."""
        assert self._process is not None
        return self._process.pid

    def start(self, seconds: float = 60.0) -> None:
        """Start it, on the port it had before, and return once it answers."""
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)], stdout=subprocess.PIPE, env=self._env, text=True
        )
        self.url = self._line(seconds).split(" on ")[1].strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    def _line(self, seconds: float) -> str:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 0.1)[0]:
                line = process.stdout.readline()
                if not line:
                    break
                if line.startswith("serving "):
                    return line
        self.kill()
        raise RuntimeError(f"the server did not say that it serves: exit status {process.returncode}")

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait until it is gone."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.stop()


@contextlib.contextmanager
def serving(bundle: str | Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A running server, stopped on the way out if it still runs."""
    with Serving(bundle, *options, env=env) as server:
        yield server
