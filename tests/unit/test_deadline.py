"""Deadlines, on the same terms as `asyncio.timeout`."""

from __future__ import annotations

import asyncio
import time

import pytest

from agent_env.deadline import Deadline


async def after(seconds: float, answer: int) -> int:
    await asyncio.sleep(seconds)
    return answer


async def test_an_answer_in_time_and_one_too_late() -> None:
    deadline = Deadline()
    assert await deadline.within(5.0, after(0.0, 1)) == 1
    assert not deadline.expired
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await deadline.within(0.05, after(60, 2))
    assert deadline.expired
    assert time.monotonic() - began < 5
    assert await deadline.within(5.0, after(0.0, 3)) == 3
    assert not deadline.expired
    deadline.forget()


async def test_a_shorter_deadline_after_a_longer_one_and_the_other_way_round() -> None:
    deadline = Deadline()
    await deadline.within(60.0, after(0.0, 1))
    with pytest.raises(TimeoutError):
        await deadline.within(0.05, after(60, 2))
    # The timer of the short one must not end the long one.
    await deadline.within(0.05, after(0.0, 3))
    assert await deadline.within(5.0, after(0.15, 4)) == 4
    deadline.forget()


async def test_what_is_cancelled_from_outside_is_not_a_timeout() -> None:
    deadline = Deadline()
    task = asyncio.create_task(deadline.within(60, after(60, 1)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not deadline.expired
    deadline.forget()


async def test_a_cancellation_in_the_instant_of_the_deadline_is_not_swallowed() -> None:
    deadline = Deadline()
    task = asyncio.create_task(deadline.within(0.02, after(60, 1)))
    await asyncio.sleep(0)

    def at_the_deadline() -> None:
        time.sleep(0.05)  # so that both are due in one turn of the loop, the deadline first
        asyncio.get_running_loop().call_soon(task.cancel)

    asyncio.get_running_loop().call_soon(at_the_deadline)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_passes_and_the_task_can_go_on_after_a_timeout() -> None:
    deadline = Deadline()

    async def fails() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await deadline.within(5, fails())
    with pytest.raises(TimeoutError):
        await deadline.within(0.01, after(60, 1))
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    await asyncio.sleep(0.01)
    deadline.forget()


async def test_no_timer_is_left_once_it_is_forgotten() -> None:
    deadline = Deadline()
    await deadline.within(60.0, after(0.0, 1))
    assert deadline._timer is not None
    deadline.forget()
    assert deadline._timer is None
