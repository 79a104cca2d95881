"""``hosting.mode = "processes"``: each episode has a worker process of its own, forked for it and gone with it.

So an environment that blocks, leaks, crashes or is killed costs its own episode only, and nothing it left behind
reaches the next. A few workers wait, already forked (``hosting.workers``), so that opening an episode is a matter of a
message. A call that is cancelled, or ran past its deadline, ends with its worker killed, and so does one whose worker
takes more memory or processor time than ``[limits]`` allow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from agent_env.environment import Score
from agent_env.errors import EpisodeError
from agent_env.hosting import pipe
from agent_env.hosting.forker import Fork, Forker
from agent_env.hosting.watch import Caps
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

if TYPE_CHECKING:
    from agent_env.bundle import Bundle

logger = logging.getLogger(__name__)

EPITAPH_TIMEOUT = 1.0
"""Seconds to wait for word of how a worker ended, once its socket has closed."""


class ProcessHost:
    """Workers for one bundle, and the process they are forked off, which is started again if it ends."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._forker: Forker | None = None
        self._starting = asyncio.Lock()
        self._waiting: list[Fork] = []
        self._closed = False

    async def start(self) -> None:
        self._refill(await self._ready())

    async def open(self) -> ProcessHandle:
        forker = await self._ready()
        fork = None
        while self._waiting and fork is None:
            candidate = self._waiting.pop(0)
            if candidate.ended.done():
                candidate.connection.close()
            else:
                fork = candidate
        if fork is None:
            fork = forker.fork()
        asyncio.get_running_loop().call_soon(self._refill, forker)
        return ProcessHandle(forker, fork)

    async def close(self) -> None:
        self._closed = True
        self._drop_waiting()
        async with self._starting:
            if self._forker is not None:
                await self._forker.close()

    async def _ready(self) -> Forker:
        async with self._starting:
            if self._closed:
                raise EpisodeError("the server is shutting down")
            if self._forker is None or not self._forker.alive:
                if self._forker is not None:
                    logger.warning(
                        "the process that makes workers for %r has ended; starting another", self._bundle.name
                    )
                    self._drop_waiting()
                    await self._forker.close()
                limits = self._bundle.limits
                caps = Caps(limits.max_memory_mb, limits.max_cpu_seconds)
                self._forker = await Forker.start(self._bundle.path, caps)
            return self._forker

    def _refill(self, forker: Forker) -> None:
        if forker.alive and not self._closed:
            with contextlib.suppress(EpisodeError):
                while len(self._waiting) < self._bundle.hosting.workers:
                    self._waiting.append(forker.fork())

    def _drop_waiting(self) -> None:
        for fork in self._waiting:
            fork.connection.close()
        self._waiting.clear()


class ProcessHandle:
    """An environment in a worker process."""

    def __init__(self, forker: Forker, fork: Fork) -> None:
        self._forker, self._fork = forker, fork
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._gone = False

    async def reset(self, task: Task, seed: int) -> Observation | None:
        reply = await self._ask("reset", pipe.Request("reset", task=task, seed=seed))
        return reply.observation

    async def call(self, name: str, arguments: Any) -> ToolResult:
        reply = await self._ask(f"tool {name!r}", pipe.Request("call", name=name, arguments=arguments))
        if reply.result is None:
            raise EpisodeError(f"the worker process answered tool {name!r} without a result")
        return reply.result

    async def score(self, reply: str, turn: Turn) -> Score:
        answer = await self._ask(f"the score of turn {turn.id!r}", pipe.Request("score", reply=reply, turn=turn))
        return answer.the_score()

    async def close(self) -> None:
        if self._gone:
            return
        try:
            await self._ask("close", pipe.Request("close"))
        finally:
            self._end()

    async def _ask(self, what: str, request: pipe.Request) -> pipe.Reply:
        if self._gone:
            raise EpisodeError("the worker process of this episode is gone")
        try:
            reply = await self._exchange(request)
        except (OSError, asyncio.IncompleteReadError):
            how = await self._epitaph()
            raise EpisodeError(f"the worker process {how}, in {what}") from None
        except (msgspec.MsgspecError, ValueError) as error:
            self._end()
            raise EpisodeError(f"{what}: {error}") from error
        except BaseException:
            # Cancelled: the client has gone or the deadline has passed, and the call may be running still.
            self._end()
            raise
        return reply.raise_if_failed()

    async def _exchange(self, request: pipe.Request) -> pipe.Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._fork.connection)
        reader, writer = self._streams
        writer.write(pipe.encode(request))
        await writer.drain()
        (length,) = pipe.LENGTH.unpack(await reader.readexactly(pipe.LENGTH.size))
        if length > pipe.MAX_MESSAGE:
            raise ValueError(f"the worker process announced a message of {length} bytes")
        return pipe.decode_reply(await reader.readexactly(length))

    async def _epitaph(self) -> str:
        """How the worker ended, in words."""
        try:
            async with asyncio.timeout(EPITAPH_TIMEOUT):
                return await asyncio.shield(self._fork.ended)
        except TimeoutError:
            return "closed its socket"
        finally:
            self._end()

    def _end(self) -> None:
        """Be done with the worker, whatever it is doing."""
        if not self._gone:
            self._gone = True
            self._forker.kill(self._fork)
            if self._streams is None:
                self._fork.connection.close()
            else:
                self._streams[1].transport.abort()
