"""Admission on an event loop whose clock the tests turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent_env.openenv.admission import Admission, AtCapacity, Slot

LIMIT, QUEUE, TIMEOUT = 3, 4, 10.0


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time stands still until `advance`."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Run what is ready, and what that makes ready."""
        self.run_until_complete(self._turns(8))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    @staticmethod
    async def _turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


@pytest.fixture
def clock() -> Iterator[Clock]:
    loop = Clock()
    yield loop
    loop.close()


class Machine(RuleBasedStateMachine):
    """Newcomers, leavers, waiters that give up, and time, against lists of who holds a slot and who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.admission = Admission(LIMIT, queue_limit=QUEUE, timeout=TIMEOUT)
        self.inside: list[asyncio.Task[Slot]] = []
        self.queue: list[tuple[asyncio.Task[Slot], float]] = []

    def teardown(self) -> None:
        for task, _ in self.queue:
            task.cancel()
        self.clock.settle()
        self.clock.close()

    def admit_from_queue(self) -> None:
        while self.queue and len(self.inside) < LIMIT:
            self.inside.append(self.queue.pop(0)[0])

    @rule()
    def come(self) -> None:
        task = self.clock.create_task(self.admission.enter())
        self.clock.settle()
        if len(self.inside) < LIMIT:
            self.inside.append(task)
        elif len(self.queue) < QUEUE:
            self.queue.append((task, self.clock.now + TIMEOUT))
        else:
            error = task.exception()
            assert isinstance(error, AtCapacity)
            assert (error.active, error.limit) == (LIMIT, LIMIT)

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), times=st.integers(1, 3))
    def leave(self, data: st.DataObject, times: int) -> None:
        task = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        for _ in range(times):
            task.result().release()
        self.admit_from_queue()
        self.clock.settle()

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        task, _ = self.queue.pop(data.draw(st.integers(0, len(self.queue) - 1)))
        task.cancel()
        self.clock.settle()
        assert task.cancelled()

    @precondition(lambda self: self.queue and self.inside)
    @rule(data=st.data())
    def give_up_in_the_instant_of_a_leave(self, data: st.DataObject) -> None:
        """The first waiter was handed the slot, and is cancelled before it could run."""
        leaver = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        first, _ = self.queue.pop(0)
        leaver.result().release()
        first.cancel()
        self.clock.settle()
        assert first.cancelled()
        self.admit_from_queue()

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for task, until in self.queue:
            if until <= self.clock.now:
                assert isinstance(task.exception(), AtCapacity)
        self.queue = [(task, until) for task, until in self.queue if until > self.clock.now]

    @invariant()
    def as_expected(self) -> None:
        assert self.admission.active == len(self.inside)
        assert self.admission.waiting == len(self.queue)
        assert all(task.done() and not task.cancelled() for task in self.inside)
        assert not any(task.done() for task, _ in self.queue)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


def test_the_message_is_openenvs(clock: Clock) -> None:
    async def refused() -> str:
        admission = Admission(2, queue_limit=0, timeout=1.0)
        await admission.enter()
        await admission.enter()
        with pytest.raises(AtCapacity) as caught:
            await admission.enter()
        return str(caught.value)

    message = clock.run_until_complete(refused())
    assert message == "Server at capacity: 2/2 sessions active. Cannot accept new connections."


def test_waiters_are_served_in_order(clock: Clock) -> None:
    admission = Admission(1, queue_limit=10, timeout=100.0)
    order: list[int] = []

    async def guest(number: int) -> None:
        slot = await admission.enter()
        order.append(number)
        slot.release()

    first = clock.run_until_complete(admission.enter())
    guests = [clock.create_task(guest(number)) for number in range(5)]
    clock.settle()
    assert admission.waiting == 5
    first.release()
    clock.run_until_complete(asyncio.gather(*guests))
    assert order == [0, 1, 2, 3, 4]
    assert (admission.active, admission.waiting) == (0, 0)


def test_no_queue_at_all_and_no_time_at_all(clock: Clock) -> None:
    admission = Admission(1, queue_limit=5, timeout=0.0)
    clock.run_until_complete(admission.enter())
    late = clock.create_task(admission.enter())
    clock.settle()
    assert isinstance(late.exception(), AtCapacity)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"queue_limit": -1}, {"timeout": -0.1}])
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    values = {"limit": 1, "queue_limit": 0, "timeout": 1.0, **wrong}
    with pytest.raises(ValueError, match="expected limit >= 1"):
        Admission(int(values["limit"]), queue_limit=int(values["queue_limit"]), timeout=values["timeout"])
