"""``hosting.mode = "threads"``: each episode has a thread to itself for as long as it lasts.

One thread from reset to close, because much of what environments use (SQLite, browsers, OpenGL) insists on it. Threads
are reused between episodes. A thread cannot be killed: when an episode ends while author code still runs, the episode's
slot is free at once and its thread is given up; it comes back if it ever returns. How many may be away is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from agent_env.errors import EpisodeError
from agent_env.hosting.loop_handle import LoopHandle
from agent_env.hosting.loop_thread import LoopThread, join_all

if TYPE_CHECKING:
    from agent_env.bundle import Bundle

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds after an episode's end before a thread that is still in its code is reported."""


class ThreadHost:
    """A pool of threads, one an episode.

    Args:
        capacity: episodes at once. Twice as many threads may exist: the rest is for code that does not return.
    """

    def __init__(self, bundle: Bundle, capacity: int) -> None:
        self._bundle = bundle
        self._limit = 2 * capacity
        self._idle: list[LoopThread] = []
        self._busy: set[LoopThread] = set()
        self._given_up: dict[LoopThread, asyncio.TimerHandle] = {}
        self._made = 0
        self._closed = False

    @property
    def given_up(self) -> int:
        """Threads still in the code of an episode that has ended."""
        return len(self._given_up)

    async def start(self) -> None:
        """Nothing to prepare: a thread starts in less time than it takes to ask for one."""

    async def open(self) -> LoopHandle:
        if self._closed:
            raise EpisodeError("the server is shutting down")
        if not self._idle and len(self._busy) + len(self._given_up) >= self._limit:
            raise EpisodeError(
                f"{len(self._given_up)} threads are still in code of {self._bundle.name!r} whose episodes have ended, "
                'and no more may be started: find the tool that never returns, or set hosting.mode = "processes"'
            )
        if self._idle:
            thread = self._idle.pop()
        else:
            self._made += 1
            thread = LoopThread(f"{self._bundle.name}-{self._made}")
        self._busy.add(thread)
        return LoopHandle(self._bundle, thread, partial(self._leave, thread), partial(self._come_back, thread))

    async def close(self) -> None:
        self._closed = True
        still_there = await join_all([*self._idle, *self._busy, *self._given_up])
        self._idle.clear()
        if still_there:
            logger.warning(
                "%d threads are still in code of %r; they end with this process", still_there, self._bundle.name
            )

    def _leave(self, thread: LoopThread) -> None:
        self._busy.discard(thread)
        self._given_up[thread] = asyncio.get_running_loop().call_later(PATIENCE, self._report, thread)

    def _come_back(self, thread: LoopThread) -> None:
        self._given_up.pop(thread).cancel()
        if not self._closed:
            self._idle.append(thread)

    def _report(self, thread: LoopThread) -> None:
        if not self._closed:
            logger.warning(
                "thread %s is still in code of %r %g s after its episode ended; %d such threads, %d threads at most",
                *(thread.name, self._bundle.name, PATIENCE, self.given_up, self._limit),
            )
