"""A deadline for one wait after another, at hardly any cost for a wait that is short.

`asyncio.timeout` makes a timer for every wait and takes it back, which is a good part of what a quick tool call costs.
Here one timer serves many waits: it is set for the earliest deadline, and when it goes off while a later wait is on, it
is set again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


class Deadline:
    """Bounds waits of which one at a time is on. Belongs to one event loop; `forget` it when no wait will follow."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False
        """Whether the last wait ran past its deadline."""

    async def within(self, seconds: float, awaitable: Awaitable[_Answer]) -> _Answer:
        """Await `awaitable` for at most `seconds`. Raises TimeoutError, like `asyncio.timeout`, which cancels it."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        self._waiting, self._until, self.expired = task, loop.time() + seconds, False
        if self._timer is not None and self._timer.when() > self._until:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._ring, loop)
        try:
            return await awaitable
        except asyncio.CancelledError as error:
            if self.expired and task.uncancel() <= cancels:
                raise TimeoutError from error
            raise
        finally:
            self._until = self._waiting = None

    def forget(self) -> None:
        """Take the timer back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._until is None or self._waiting is None:
            return
        if loop.time() >= self._until:
            self.expired = True
            self._waiting.cancel()
        else:
            self._timer = loop.call_at(self._until, self._ring, loop)
