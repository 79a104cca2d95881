"""Servers that are killed, or stop and come back, while rollouts are being played."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from agent_env.errors import ServerUnreachable, SessionLost
from agent_env.training.rollout import Played, play
from agent_env.training.sessions import Session, Shared
from support.faults import Fault
from support.restarting import Restarting
from support.trials import write_trials
from support.waiting import until, within

SESSIONS, ROLLOUTS = 8, 12
"""So four of the rollouts wait in the server's queue while the others are in an episode."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarting]:
    server = Restarting(write_trials(tmp_path, "processes"), "--max-sessions", str(SESSIONS))
    yield server
    server.stop()


class Rollouts:
    """Rollouts that go on calling until they are told to end; a call that fails is for `play` to deal with."""

    def __init__(self, url: str) -> None:
        self.playing = 0
        self._end = asyncio.Event()
        shared = Shared(url)
        self._tasks = [asyncio.create_task(play(shared, "train", 0, self._go_on, seed=i)) for i in range(ROLLOUTS)]

    async def _go_on(self, session: Session) -> None:
        self.playing += 1
        try:
            while not self._end.is_set():
                assert (await session.call("echo", {"text": "on"})).text == "on"
                await asyncio.sleep(0.05)
            await session.finish("0.5")
        finally:
            self.playing -= 1

    async def finish(self) -> list[Played[None]]:
        self._end.set()
        return await asyncio.gather(*self._tasks)


@contextlib.asynccontextmanager
async def rollouts(url: str) -> AsyncIterator[Rollouts]:
    rollouts = Rollouts(url)
    try:
        yield rollouts
    finally:
        for task in rollouts._tasks:
            task.cancel()
        await asyncio.gather(*rollouts._tasks, return_exceptions=True)


def of_server(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def check(played: list[Played[None]], stops: int) -> str:
    """Every rollout has its whole reward, and began no more episodes than it lost; says what was seen."""
    assert [result.reward for result in played] == [0.5] * ROLLOUTS
    failures = [error for result in played for error in result.failures]
    assert {type(error) for error in failures} <= {SessionLost, ServerUnreachable}
    assert len(failures) <= stops * SESSIONS
    assert sum(result.attempts for result in played) == ROLLOUTS + len(failures)
    return f"{ROLLOUTS} of {ROLLOUTS} rollouts scored, {len(failures)} episodes replayed"


async def test_a_server_killed_twice_costs_no_rollout_and_leaves_no_worker(fault: Fault, server: Restarting) -> None:
    fault.fault = "server killed twice (SIGKILL) while sessions are open"
    fault.injected = f"kill -9, twice, with {SESSIONS} episodes running and {ROLLOUTS - SESSIONS} rollouts waiting"
    slowest = 0.0
    async with rollouts(server.url) as playing:
        for _ in range(2):
            await until(lambda: playing.playing == SESSIONS, 60)
            below = of_server(server.pid)
            assert len(below) > SESSIONS  # a worker each, and the process that they are forked off
            killed = time.monotonic()
            await asyncio.to_thread(server.kill)
            await until(lambda below=below: not any(map(is_alive, below)))  # type: ignore[misc]
            slowest = max(slowest, time.monotonic() - killed)
            assert slowest < within(2.0)
            await asyncio.to_thread(server.start)
        await until(lambda: playing.playing == SESSIONS, 60)
        fault.seen = f"{check(await playing.finish(), 2)}; workers gone {slowest:.1f} s after the kill"
    fault.lost = "nothing"


async def test_a_server_that_stops_and_is_back_five_seconds_later_costs_no_rollout(
    fault: Fault, server: Restarting
) -> None:
    fault.fault = "server stopped (SIGTERM), restarted 5 s later"
    fault.injected = f"SIGTERM with {SESSIONS} episodes running and {ROLLOUTS - SESSIONS} rollouts waiting for one"
    async with rollouts(server.url) as playing:
        await until(lambda: playing.playing == SESSIONS, 60)
        below = of_server(server.pid)
        await asyncio.to_thread(server.stop, signal.SIGTERM)
        assert not any(map(is_alive, below))
        await asyncio.sleep(5.0)
        await asyncio.to_thread(server.start)
        await until(lambda: playing.playing == SESSIONS, 60)
        fault.seen = check(await playing.finish(), 1)
    fault.lost = "nothing"
