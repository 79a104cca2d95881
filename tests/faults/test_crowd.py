"""A thousand clients at a server of 64 sessions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.faults import Fault
from support.servers import Client, Server, client, serving
from support.trials import write_trials
from support.waiting import until, within

CLIENTS, SESSIONS = 1000, 64
MIB = 2**20

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Crowd:
    """Clients that come one by one, each asking for an episode as it comes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.guests: list[Client] = []
        self.asked: list[float] = []

    async def come(self, stack: contextlib.AsyncExitStack) -> None:
        for _ in range(CLIENTS):
            guest = await stack.enter_async_context(client(self._server.ws, open_timeout=60, ping_interval=None))
            await guest.socket.send(json.dumps({"type": "reset", "data": {"split": "train", "index": 0}}))
            self.guests.append(guest)
            self.asked.append(time.monotonic())


def usage(server: Server) -> tuple[float, int, int]:
    """Processor seconds the server has used, its memory in MB, its open files."""
    process = psutil.Process(server.process.pid)
    times = process.cpu_times()
    return times.user + times.system, process.memory_info().rss // MIB, process.num_fds()


async def idle_share(server: Server, seconds: float) -> float:
    """The share of a processor that the server takes while nobody asks it anything."""
    began, before = time.monotonic(), usage(server)[0]
    await asyncio.sleep(seconds)
    return (usage(server)[0] - before) / (time.monotonic() - began)


async def free_slots(server: Server) -> int:
    """How many sessions the server has to give at once."""
    async with contextlib.AsyncExitStack() as stack:
        guests = [await stack.enter_async_context(client(server.ws)) for _ in range(SESSIONS)]
        answers = await asyncio.gather(*(guest.ask("state") for guest in guests))
    return sum("code" not in answer for answer in answers)


async def test_all_of_a_thousand_are_served_in_the_order_of_their_arrival(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "1,000 clients at a server of 64"
    fault.injected = "1,000 sockets, each asking for an episode as it comes, none leaving before the last came"
    served: list[int] = []
    all_came = asyncio.Event()

    async def play(number: int, guest: Client) -> None:
        assert (await guest.receive())["data"]["done"] is False
        served.append(number)
        await all_came.wait()
        assert (await guest.call("end_turn", response="0.5"))["reward"] == 0.5
        await guest.socket.close()

    options = ("--max-sessions", str(SESSIONS), "--admission-timeout", "300", "--peer-timeout", "100")
    with serving(write_trials(tmp_path, "async"), *options) as server:
        assert await free_slots(server) == SESSIONS  # once, so that everything it keeps is there
        async with client(server.ws) as first:
            await first.reset()
        _, memory, files = usage(server)
        async with contextlib.AsyncExitStack() as stack:
            crowd = Crowd(server)
            await crowd.come(stack)
            plays = [asyncio.create_task(play(number, guest)) for number, guest in enumerate(crowd.guests)]
            await until(lambda: len(served) >= SESSIONS, 100)
            share = await idle_share(server, 3.0)
            assert len(served) == SESSIONS
            grown = usage(server)[1] - memory
            all_came.set()
            await asyncio.gather(*plays)
        await until(lambda: usage(server)[2] <= files + 2)
        assert await free_slots(server) == SESSIONS
    assert sorted(served) == list(range(CLIENTS))
    # As many as there are slots are served at once, and their answers may overtake one another.
    overtaken = max(abs(number - place) for place, number in enumerate(served))
    assert overtaken < SESSIONS
    assert share < 0.2
    assert grown < 256
    fault.seen = (
        f"1,000 scored, in order (but for {overtaken} places among those served at once); {grown} MB more, "
        f"{100 * share:.0f}% of a core while all wait; then 64 slots and no file more than before"
    )
    fault.lost = "nothing"


async def test_whoever_cannot_be_served_is_told_within_the_servers_deadline(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "1,000 clients at a server of 64 that are never done"
    fault.injected = "64 sessions that are kept, 936 clients with an --admission-timeout of 10 s"
    waited: list[float] = []
    options = ("--max-sessions", str(SESSIONS), "--admission-timeout", "10", "--peer-timeout", "100")
    with serving(write_trials(tmp_path, "async"), *options) as server:
        async with contextlib.AsyncExitStack() as stack:
            crowd = Crowd(server)

            async def told(guest: Client, asked: float) -> None:
                answer = await guest.receive()
                assert answer["data"]["code"] == "CAPACITY_REACHED"
                waited.append(time.monotonic() - asked)

            async def listen() -> None:
                async with asyncio.TaskGroup() as group:
                    for number in range(CLIENTS):
                        await until(lambda number=number: len(crowd.guests) > number, 100)  # type: ignore[misc]
                        if number >= SESSIONS:
                            group.create_task(told(crowd.guests[number], crowd.asked[number]))

            await asyncio.gather(crowd.come(stack), listen())
            kept = [await guest.receive() for guest in crowd.guests[:SESSIONS]]
            assert all(answer["data"]["done"] is False for answer in kept)
        assert await free_slots(server) == SESSIONS
    assert len(waited) == CLIENTS - SESSIONS
    assert min(waited) > 9.0
    assert max(waited) < within(20.0)
    fault.seen = f"936 were told CAPACITY_REACHED after {min(waited):.1f} to {max(waited):.1f} s; then 64 slots free"
    fault.lost = "nothing: a client that is told may ask again"
