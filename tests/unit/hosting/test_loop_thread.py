"""Coroutines in another thread's loop: what comes back, what is cancelled, what a busy thread holds up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from agent_env.errors import EpisodeError
from agent_env.hosting.loop_thread import LoopThread, join_all


@pytest.fixture
async def thread() -> AsyncIterator[LoopThread]:
    thread = LoopThread("under-test")
    yield thread
    assert await join_all([thread]) == 0


async def test_an_answer_and_an_exception_come_back(thread: LoopThread) -> None:
    async def divide(a: int, b: int) -> tuple[float, str]:
        await asyncio.sleep(0)
        return a / b, threading.current_thread().name

    assert await thread.begin(divide, 1, 2).done == (0.5, "under-test")
    with pytest.raises(ZeroDivisionError):
        await thread.begin(divide, 1, 0).done


@pytest.mark.parametrize("error", [KeyboardInterrupt("a"), SystemExit(1), GeneratorExit(), asyncio.CancelledError()])
async def test_what_would_end_a_loop_or_a_task_is_an_error_of_the_environment(
    thread: LoopThread, error: BaseException
) -> None:
    async def raises() -> None:
        raise error

    async def answers() -> int:
        return 1

    with pytest.raises(EpisodeError, match=type(error).__name__):
        await thread.begin(raises).done
    assert await thread.begin(answers).done == 1


async def test_cancelling_reaches_the_coroutine(thread: LoopThread) -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def waits() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    job = thread.begin(waits)
    await asyncio.to_thread(began.wait, 10)
    thread.cancel(job)
    assert await asyncio.to_thread(cancelled.wait, 10)


async def test_a_job_cancelled_before_it_began_never_does(thread: LoopThread) -> None:
    async def blocks() -> None:
        time.sleep(0.3)

    ran = False

    async def never() -> None:
        nonlocal ran
        ran = True

    blocking = thread.begin(blocks)
    job = thread.begin(never)
    thread.cancel(job)
    await blocking.done
    await thread.begin(asyncio.sleep, 0).done
    assert not ran


async def test_lag_tells_how_long_a_thread_has_not_listened(thread: LoopThread) -> None:
    async def blocks() -> None:
        time.sleep(0.5)

    job = thread.begin(blocks)
    await asyncio.sleep(0.1)
    thread.ask_for_sign()
    await asyncio.sleep(0.2)
    assert 0.1 < thread.lag() < 0.5
    await job.done
    await thread.begin(asyncio.sleep, 0).done
    assert thread.lag() == 0.0


async def test_thousands_of_jobs_at_once(thread: LoopThread) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    answers = await asyncio.gather(*(thread.begin(double, number).done for number in range(3000)))
    assert answers == [2 * number for number in range(3000)]


async def test_stopping_cancels_what_still_runs() -> None:
    thread = LoopThread("stopped")
    ended = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    job = thread.begin(waits)
    await thread.begin(asyncio.sleep, 0).done
    assert await join_all([thread]) == 0
    assert ended.is_set()
    with pytest.raises(EpisodeError, match="CancelledError"):
        await job.done
    assert not thread.alive
    # What is asked of it now is dropped, and nothing breaks.
    thread.begin(waits)
    thread.stop()


async def test_a_thread_that_does_not_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_env.hosting import loop_thread

    monkeypatch.setattr(loop_thread, "JOIN_TIMEOUT", 0.1)
    thread = LoopThread("busy")
    began, released = threading.Event(), threading.Event()

    async def blocks() -> None:
        began.set()
        released.wait(60)

    thread.begin(blocks)
    assert await asyncio.to_thread(began.wait, 10)
    assert await join_all([thread]) == 1
    monkeypatch.undo()
    released.set()
    assert await join_all([thread]) == 0
