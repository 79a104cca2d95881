"""Engines of bundles that have a venv of their own (``[install] venv = true``): programs that the bundle's code asks.

An engine is a script in the bundle's folder, run by the venv's Python (see `agent_env.hosting.engine_process`). It is
started when it is first needed, once for all episodes of this process, and ends with this process, however that ends.
Every episode asks a process of its own, forked off the one that has loaded the script, so one that blocks, leaks or
crashes costs its own episode only. In ``env.py``::

    async def reset(self, task, seed):
        self.engine = await engine_of(HERE).open()
        text = await self.engine.ask("start", task=task.env["task"], seed=seed)

    def close(self):
        self.engine.close()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from agent_env.errors import EpisodeError
from agent_env.hosting import engine_process
from agent_env.hosting.engine_process import KILL, LENGTH, OPEN, ORDER
from agent_env.install.needs import venv_python

SCRIPT = "engine.py"
"""The script's name in a bundle's folder."""
MAX_ANSWER = 64 * 2**20
"""Bytes that an answer may have."""
STOP_TIMEOUT = 3.0
"""Seconds for an engine to kill what it forked and end; then it is killed itself."""

_engines: dict[tuple[Path, tuple[str, ...]], Engine] = {}
_lock = threading.Lock()


def engine_of(folder: Path, *arguments: str) -> Engine:
    """The engine of the bundle in `folder`, one for all of this process.

    Args:
        arguments: of the script, which finds them in ``sys.argv``; for others there is another engine.

    Raises:
        BundleError: the bundle is not installed.
    """
    python, script = venv_python(folder), folder / SCRIPT
    with _lock:
        key = (script, arguments)
        if key not in _engines:
            _engines[key] = Engine(python, script, *arguments)
        return _engines[key]


def close_engines() -> None:
    """End every engine of this process, with the episodes that ask it; the next episode starts its engine anew."""
    with _lock:
        for engine in _engines.values():
            engine.close()


class Engine:
    """One script's process, started when it is needed, and again if it has ended.

    Args:
        python: which runs the script.
        script: defines ``Episode``, whose methods are what can be asked for.
        arguments: of the script.
    """

    def __init__(self, python: Path, script: Path, *arguments: str) -> None:
        self._python, self._script, self._arguments = python, script, arguments
        self._lock = threading.Lock()  # episodes may be opened in several threads
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._made = 0

    async def open(self) -> EngineSession:
        """A process of one episode's own, which must be closed. Raises EpisodeError if none can be had."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                with self._lock:
                    process, control = self._running()
                    self._made += 1
                    number = self._made
                    socket.send_fds(control, [ORDER.pack(OPEN, number)], [theirs.fileno()])
                reader, writer = await asyncio.open_connection(sock=ours)
            except OSError as error:
                ours.close()
                raise EpisodeError(f"the engine {self._script.name} cannot be started: {error}") from error
        return EngineSession(self, process, number, reader, writer)

    def close(self) -> None:
        """End the process and all that it forked, within `STOP_TIMEOUT`."""
        with self._lock:
            process, control = self._process, self._control
            self._process = self._control = None
        if process is None or control is None:
            return
        control.close()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Kill the process of one episode, if `process` that forked it is still there."""
        with self._lock:
            if process is self._process and self._control is not None:
                with contextlib.suppress(OSError):
                    self._control.send(ORDER.pack(KILL, number))

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._process is not None and self._control is not None:
            if self._process.poll() is None:
                return self._process, self._control
            self._control.close()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [
                        *(str(self._python), "-I", engine_process.__file__),
                        *(str(theirs.fileno()), str(self._script), *self._arguments),
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        self._control = ours
        return self._process, ours


class EngineSession:
    """What one episode asks of its engine, a request at a time; it runs in the event loop in which it was opened."""

    def __init__(
        self,
        engine: Engine,
        process: subprocess.Popen[bytes],
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._engine, self._process, self._number = engine, process, number
        self._reader, self._writer = reader, writer
        self._closed = False

    async def ask(self, do: str, **arguments: Any) -> Any:
        """Call a method of the script's ``Episode``.

        A call that is cancelled, as one is that runs past a deadline of the bundle, ends the process.

        Args:
            do: the method's name.
            arguments: its keyword arguments, JSON-able.

        Returns:
            What it returned, read from its JSON.

        Raises:
            EpisodeError: the method raised, or the process ended.
        """
        if self._closed:
            raise EpisodeError("the engine's process of this episode is gone")
        request = json.dumps({"do": do, "with": arguments}).encode()
        try:
            self._writer.write(LENGTH.pack(len(request)) + request)
            await self._writer.drain()
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if length > MAX_ANSWER:
                raise EpisodeError(f"the engine announced an answer of {length} bytes to {do!r}")
            said = json.loads(await self._reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise EpisodeError(f"the engine's process ended in {do!r}{self._status()}; it printed why") from None
        except BaseException:
            self.close()
            raise
        if "failure" in said:
            raise EpisodeError(f"the engine failed in {do!r}: {said['failure']}")
        return said["answer"]

    def close(self) -> None:
        """End the episode's process, whatever it is doing. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._engine.kill(self._process, self._number)
            self._writer.transport.abort()

    def _status(self) -> str:
        status = self._process.poll()
        return "" if status is None else f", and the engine itself with status {status}"
