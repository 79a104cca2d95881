"""Who may open a session: a fixed number of slots, given out first come, first served.

A newcomer at the limit waits in a queue of bounded length for a bounded time. A slot that is released goes straight to
the head of the queue, so nobody overtakes; a waiter that is cancelled leaves the queue, and gives back a slot that was
handed to it in the same instant. All methods run on one event loop; none of them needs a lock.
"""

from __future__ import annotations

import asyncio

from agent_env.errors import AgentEnvError


class AtCapacity(AgentEnvError):
    """No slot became free in time, or the queue is full. The wording is OpenEnv's: its clients match on it.

    Args:
        hint: more about this limit.
    """

    def __init__(self, active: int, limit: int, hint: str = "") -> None:
        self.active, self.limit = active, limit
        text = f"Server at capacity: {active}/{limit} sessions active. Cannot accept new connections."
        super().__init__(f"{text} {hint}".strip())


class Slot:
    """The right to one session. `release` may be called any number of times; the first call counts."""

    def __init__(self, admission: Admission, within: Slot | None = None) -> None:
        self._admission: Admission | None = admission
        self._within = within

    def release(self) -> None:
        """Give the slot back, to the first waiter if there is one, and with it the one that it was taken within."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission._give_back()
            if self._within is not None:
                self._within.release()


class Admission:
    """Hands out `limit` slots.

    Args:
        limit: sessions at once, at least 1.
        queue_limit: newcomers that may wait at once; one more is refused at once.
        timeout: the longest wait in the queue, seconds.
        hint: what a newcomer who is refused is told of this limit.
    """

    def __init__(self, limit: int, *, queue_limit: int, timeout: float, hint: str = "") -> None:
        if limit < 1 or queue_limit < 0 or timeout < 0:
            raise ValueError(
                f"expected limit >= 1, queue_limit >= 0, timeout >= 0; got {limit}, {queue_limit}, {timeout}"
            )
        self.limit, self.queue_limit, self.timeout, self._hint = limit, queue_limit, timeout, hint
        self.active = 0
        # Insertion order is the queue's order; a dict so that a waiter that gives up is removed in constant time.
        self._waiting: dict[asyncio.Future[None], asyncio.TimerHandle] = {}

    @property
    def waiting(self) -> int:
        """How many newcomers are in the queue."""
        return len(self._waiting)

    async def enter(self, outer: Admission | None = None) -> Slot:
        """Take a slot, waiting for one if need be.

        Args:
            outer: that a slot is taken of first, within the same time; it goes back with this one.

        Raises:
            AtCapacity: a queue is full, or no slot came free within `timeout`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        within = None if outer is None else await outer.enter()
        try:
            await self._take(deadline)
        except BaseException:
            if within is not None:
                within.release()
            raise
        return Slot(self, within)

    async def _take(self, deadline: float) -> None:
        if self.active < self.limit:
            self.active += 1
            return
        if len(self._waiting) >= self.queue_limit:
            raise self._full()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[turn] = loop.call_at(deadline, self._expire, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back()
            raise
        finally:
            self._leave_queue(turn)

    def _full(self) -> AtCapacity:
        return AtCapacity(self.active, self.limit, self._hint)

    def _give_back(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                # The slot changes hands without ever counting as free, so nobody can overtake the queue.
                turn.set_result(None)
                self._leave_queue(turn)
                return
        self.active -= 1

    def _expire(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(self._full())
        self._leave_queue(turn)

    def _leave_queue(self, turn: asyncio.Future[None]) -> None:
        timer = self._waiting.pop(turn, None)
        if timer is not None:
            timer.cancel()
