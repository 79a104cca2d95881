"""Who may open a session: a fixed number of slots, given out first come, first served.

A newcomer at the limit waits in a queue of bounded length for a bounded time. A slot that is released goes straight to
the head of the queue, so nobody overtakes; a waiter that is cancelled leaves the queue, and gives back a slot that was
handed to it in the same instant. All methods run on one event loop; none of them needs a lock.
"""

from __future__ import annotations

import asyncio

from agent_env.errors import AgentEnvError


class AtCapacity(AgentEnvError):
    """No slot became free in time, or the queue is full. The wording is OpenEnv's: its clients match on it."""

    def __init__(self, active: int, limit: int) -> None:
        self.active, self.limit = active, limit
        super().__init__(f"Server at capacity: {active}/{limit} sessions active. Cannot accept new connections.")


class Slot:
    """The right to one session. `release` may be called any number of times; the first call counts."""

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission

    def release(self) -> None:
        """Give the slot back, to the first waiter if there is one."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission._give_back()


class Admission:
    """Hands out `limit` slots.

    Args:
        limit: sessions at once, at least 1.
        queue_limit: newcomers that may wait at once; one more is refused at once.
        timeout: the longest wait in the queue, seconds.
    """

    def __init__(self, limit: int, *, queue_limit: int, timeout: float) -> None:
        if limit < 1 or queue_limit < 0 or timeout < 0:
            raise ValueError(
                f"expected limit >= 1, queue_limit >= 0, timeout >= 0; got {limit}, {queue_limit}, {timeout}"
            )
        self.limit, self.queue_limit, self.timeout = limit, queue_limit, timeout
        self.active = 0
        # Insertion order is the queue's order; a dict so that a waiter that gives up is removed in constant time.
        self._waiting: dict[asyncio.Future[None], asyncio.TimerHandle] = {}

    @property
    def waiting(self) -> int:
        """How many newcomers are in the queue."""
        return len(self._waiting)

    async def enter(self) -> Slot:
        """Take a slot, waiting for one if need be.

        Raises:
            AtCapacity: the queue is full, or no slot came free within `timeout`.
        """
        if self.active < self.limit:
            self.active += 1
            return Slot(self)
        if len(self._waiting) >= self.queue_limit:
            raise AtCapacity(self.active, self.limit)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[turn] = loop.call_later(self.timeout, self._expire, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back()
            raise
        finally:
            self._leave_queue(turn)
        return Slot(self)

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
            turn.set_exception(AtCapacity(self.active, self.limit))
        self._leave_queue(turn)

    def _leave_queue(self, turn: asyncio.Future[None]) -> None:
        timer = self._waiting.pop(turn, None)
        if timer is not None:
            timer.cancel()
