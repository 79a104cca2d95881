"""The server's side of `agent_env.hosting.template`: starts it, has it fork and kill workers, hears how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent_env.errors import EpisodeError
from agent_env.hosting.template import FORK, KILL, ORDER, Notice
from agent_env.hosting.watch import Caps

START_TIMEOUT = 120.0
"""Seconds for loading a bundle in the template; large data may be read there, once."""
STOP_TIMEOUT = 3.0
"""Seconds for the template to kill its workers and end."""


@dataclass(frozen=True)
class Fork:
    """A worker: the server's end of its socket, and a future that says how it ended."""

    number: int
    connection: socket.socket
    ended: asyncio.Future[str]


class Forker:
    """One template process. Make it with `start`."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._first: asyncio.Future[Notice] = self._loop.create_future()
        self._forks: dict[int, Fork] = {}
        self._made = 0
        self.alive = True
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._read)

    @classmethod
    async def start(cls, bundle: Path, caps: Caps) -> Forker:
        """Start a template for the bundle in folder `bundle`, each of whose workers may take `caps`.

        Raises:
            EpisodeError: it cannot load it.
        """
        forker = cls._spawn(bundle, caps)
        notice = await forker._ready()
        if notice.threads:
            # Forking while other threads hold locks is how workers hang; so each loads the bundle by itself.
            await forker.close()
            forker = cls._spawn(bundle, caps, "--bare")
            await forker._ready()
        return forker

    @classmethod
    def _spawn(cls, bundle: Path, caps: Caps, *flags: str) -> Forker:
        ours, theirs = socket.socketpair()
        with theirs:
            # Called on the event loop's thread: the kernel ends the template when the *thread* that started it ends.
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "agent_env.hosting.template"),
                    *(str(theirs.fileno()), str(bundle), str(os.getpid()), msgspec.json.encode(caps).decode(), *flags),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_fileno(sys.stderr) else subprocess.DEVNULL,
                start_new_session=True,
            )
        return cls(process, ours)

    async def _ready(self) -> Notice:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                notice = await self._first
        except TimeoutError:
            await self.close()
            raise EpisodeError(f"loading the bundle took longer than {START_TIMEOUT:.0f} s") from None
        if not notice.ready:
            await self.close()
            raise EpisodeError(f"a worker process cannot load the bundle: {notice.failure}")
        return notice

    def fork(self) -> Fork:
        """Have a worker forked. It reads its first request whenever it is up. Raises EpisodeError."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._made += 1
            fork = Fork(self._made, ours, self._loop.create_future())
            try:
                socket.send_fds(self._control, [ORDER.pack(FORK, fork.number)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise EpisodeError(f"no worker process can be started: {error}") from error
        self._forks[fork.number] = fork
        return fork

    def kill(self, fork: Fork) -> None:
        """Kill a worker with everything in its process group; a worker that has ended is left alone."""
        if not fork.ended.done():
            with contextlib.suppress(OSError):
                self._control.send(ORDER.pack(KILL, fork.number))

    async def close(self) -> None:
        """Have the template kill its workers and end, within `STOP_TIMEOUT`; then it is killed itself."""
        self._lost("the server closed it")
        deadline = self._loop.time() + STOP_TIMEOUT
        while self._process.poll() is None:
            if self._loop.time() > deadline:
                self._process.kill()
                deadline += STOP_TIMEOUT
            await asyncio.sleep(0.005)

    def _read(self) -> None:
        try:
            received = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            code = self._process.poll()
            self._lost(f"its parent process ended{'' if code is None else f' with {code}'}")
            return
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        for line in lines:
            self._heed(msgspec.json.decode(line, type=Notice))

    def _heed(self, notice: Notice) -> None:
        if notice.worker < 0:
            if not self._first.done():
                self._first.set_result(notice)
            return
        fork = self._forks.pop(notice.worker, None)
        if fork is None or fork.ended.done():
            return
        if notice.failure:
            fork.ended.set_result(notice.failure)
        elif notice.signal is not None:
            hint = " (out of memory, perhaps)" if notice.signal == signal.SIGKILL else ""
            fork.ended.set_result(f"was killed by {signal.Signals(notice.signal).name}{hint}")
        else:
            fork.ended.set_result(f"ended by itself with status {notice.exit_status}")

    def _lost(self, why: str) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if not self._first.done():
            self._first.set_result(Notice(failure=why))
        for fork in self._forks.values():
            if not fork.ended.done():
                fork.ended.set_result(why)
        self._forks.clear()


def _has_fileno(stream: object) -> bool:
    """Whether `stream` is a real file; test runners and notebooks put other things in its place."""
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True
