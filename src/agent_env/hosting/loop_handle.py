"""An environment in the event loop of a `LoopThread`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.environment import Score
from agent_env.hosting.local import LocalHandle
from agent_env.hosting.loop_thread import Job, LoopThread
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

if TYPE_CHECKING:
    from agent_env.bundle import Bundle

_Answer = TypeVar("_Answer")


class LoopHandle:
    """A `Handle` whose author code runs in `thread`.

    Args:
        on_leave: called once, when the episode has asked for its environment to be closed.
        on_closed: called once, when the environment is closed, which code that never returns can put off for ever.
    """

    def __init__(
        self, bundle: Bundle, thread: LoopThread, on_leave: Callable[[], None], on_closed: Callable[[], None]
    ) -> None:
        self._local = LocalHandle(bundle)
        self._thread = thread
        self._on_leave, self._on_closed = on_leave, on_closed
        self._last: Job[Any] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def reset(self, task: Task, seed: int) -> Observation | None:
        return await self._run(self._local.reset, task, seed)

    async def call(self, name: str, arguments: Any) -> ToolResult:
        return await self._run(self._local.call, name, arguments)

    async def score(self, reply: str, turn: Turn) -> Score:
        return await self._run(self._local.score, reply, turn)

    async def close(self) -> None:
        if self._closing is None:
            self._on_leave()
            self._closing = self._thread.begin(self._close_there, self._last).done
            self._closing.add_done_callback(self._closed)
        # Shielded: whoever stops waiting must not keep the thread from being used again when it is free.
        await asyncio.shield(self._closing)

    async def _run(self, function: Callable[..., Coroutine[Any, Any, _Answer]], *arguments: Any) -> _Answer:
        job = self._thread.begin(function, *arguments)
        self._last = job
        try:
            return await job.done
        except asyncio.CancelledError:
            self._thread.cancel(job)
            raise

    async def _close_there(self, last: Job[Any] | None) -> None:
        """In the thread: a call that was cancelled may still be tidying up, so wait for it."""
        if last is not None and last.task is not None and not last.task.done():
            await asyncio.wait([last.task])
        await self._local.close()

    def _closed(self, closing: asyncio.Future[None]) -> None:
        self._on_closed()
        if not closing.cancelled():
            # Looked at, so that a failure to close is not reported as lost when the episode no longer waits for it.
            closing.exception()
