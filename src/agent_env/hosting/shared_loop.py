"""``hosting.mode = "async"``: all episodes share one event loop in a thread of its own, for code that never blocks.

It is the cheapest place to run, and the least safe: code that blocks the loop holds up every episode in it until their
deadlines. The server itself goes on, and new episodes get a new loop once the old one is seen to be stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from agent_env.errors import EpisodeError
from agent_env.hosting.loop_handle import LoopHandle
from agent_env.hosting.loop_thread import LoopThread, join_all

if TYPE_CHECKING:
    from agent_env.bundle import Bundle

logger = logging.getLogger(__name__)

STUCK_AFTER = 2.0
"""Seconds without a sign of life after which a loop counts as stuck."""
MAX_STUCK = 8
"""Loops that may be stuck at once; one episode more is refused."""


class _Shared:
    """One loop and how many environments live in it."""

    def __init__(self, name: str) -> None:
        self.thread = LoopThread(name)
        self.environments = 0

    def enter(self) -> None:
        self.environments += 1

    def leave(self) -> None:
        self.environments -= 1


class SharedLoopHost:
    """One loop for all episodes, replaced when author code blocks it."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._current: _Shared | None = None
        self._replaced: list[_Shared] = []
        self._watch: asyncio.Task[None] | None = None
        self._made = 0
        self._closed = False

    @property
    def loops(self) -> int:
        """Loops there are: one, unless author code has blocked some."""
        return len(self._replaced) + (self._current is not None)

    async def start(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._watch_loops())

    async def open(self) -> LoopHandle:
        if self._closed:
            raise EpisodeError("the server is shutting down")
        shared = self._current
        if shared is not None and shared.thread.lag() > STUCK_AFTER:
            logger.warning(
                "code of %r blocks its event loop; new episodes get another one (find the blocking call, or set "
                'hosting.mode = "threads")',
                self._bundle.name,
            )
            self._replaced.append(shared)
            shared = self._current = None
        if shared is None:
            if len(self._replaced) >= MAX_STUCK:
                raise EpisodeError(
                    f"{len(self._replaced)} event loops are blocked by code of {self._bundle.name!r}: it must not "
                    'block, or set hosting.mode = "threads"'
                )
            self._made += 1
            shared = self._current = _Shared(f"{self._bundle.name}-loop-{self._made}")
        shared.enter()
        return LoopHandle(self._bundle, shared.thread, _nothing, shared.leave)

    async def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        loops = [*self._replaced, *([self._current] if self._current else [])]
        still_there = await join_all([shared.thread for shared in loops])
        if still_there:
            logger.warning(
                "%d loops are still blocked by code of %r; they end with this process", still_there, self._bundle.name
            )

    async def _watch_loops(self) -> None:
        """Keep asking every loop for a sign of life; end a replaced one that came back and is empty."""
        while True:
            await asyncio.sleep(STUCK_AFTER / 4)
            for shared in [s for s in self._replaced if s.environments == 0 and s.thread.lag() == 0.0]:
                self._replaced.remove(shared)
                shared.thread.stop()
            for loop in (self._current, *self._replaced):
                if loop is not None:
                    loop.thread.ask_for_sign()


def _nothing() -> None:
    pass
