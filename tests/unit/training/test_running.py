"""A command's coroutine is run to its end, and blocking calls that were given up are not waited for."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time

import pytest

from agent_env.errors import ServerUnreachable
from agent_env.stopping import Stopped, stopping
from agent_env.training import running
from agent_env.training.running import run
from agent_env.training.sessions import Shared, opened, read_tasks


def test_what_it_returns_and_raises() -> None:
    async def returns() -> int:
        return await asyncio.to_thread(lambda: 3)

    async def raises() -> None:
        await asyncio.to_thread(int, "x")

    assert run(returns()) == 3
    with pytest.raises(ValueError, match="invalid literal"):
        run(raises())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_it_and_it_tidies_up(number: signal.Signals) -> None:
    done = []

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)  # what this raised would be lost

    async def work() -> None:
        try:
            Finalized()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            done.append("tidied")

    with pytest.raises(Stopped) as stopped, stopping():
        run(work())
    assert (stopped.value.number, done) == (number, ["tidied"])


def test_one_that_ends_all_the_same_is_stopped() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped), stopping():
        run(work())


def test_one_that_does_not_heed_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GIVE_UP", 0.2)

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    began = time.monotonic()
    with pytest.raises(Stopped), stopping():
        run(work())
    assert time.monotonic() - began < 30


def test_a_second_signal_interrupts_it_at_once() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    began = time.monotonic()
    with pytest.raises(Stopped), stopping():
        run(work())
    assert time.monotonic() - began < 5


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A resolver that answers nothing before this is set."""
    answer, resolve = threading.Event(), socket.getaddrinfo

    def slow(host: str | bytes | None, *rest: object, **more: object) -> object:
        if host in ("slow.test", b"slow.test"):
            answer.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return resolve(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    return answer


@pytest.mark.parametrize("what", ["read", "play"])
def test_a_name_that_is_not_resolved_costs_the_connect_timeout_and_no_more(
    unanswered: threading.Event, what: str
) -> None:
    shared = Shared("http://slow.test:1", connect_timeout=0.3)

    async def play() -> None:
        async with opened(shared, "train", 0):
            pass

    async def read() -> None:
        await read_tasks(shared)

    began = time.monotonic()
    with pytest.raises(ServerUnreachable, match=r"in 0\.3 s"):
        run(play() if what == "play" else read())
    assert time.monotonic() - began < 30  # far from the resolver's 60 s, also on a busy machine
    unanswered.set()
