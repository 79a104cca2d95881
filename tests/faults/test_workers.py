"""Environments that crash, leak, spin, fork and shout in worker processes, beside others that only play."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from support.faults import Fault
from support.latency import Bystanders, p99
from support.servers import Client, Server, client, serving
from support.trials import write_trials
from support.waiting import until, within

OTHERS = 8
IDLE = 4
"""Workers that wait for the next episodes."""
PERIOD = 1.5
"""Seconds over which latencies are taken, at least."""
ROUNDS = 5
"""Tries to find the others undisturbed: what a fault does to them it does every time, other people's load does not."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Deadlines and memory are limited as they are by default.
    folder = write_trials(tmp_path_factory.mktemp("trials"), "processes", workers=IDLE)
    with serving(folder, "--max-sessions", "16") as server:
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_trials(tmp_path_factory.mktemp("trials"), "processes", workers=IDLE, limit=5)
    with serving(folder, "--max-sessions", "16") as server:
        yield server


@contextlib.asynccontextmanager
async def bystanders(server: Server) -> AsyncIterator[Bystanders]:
    """Sessions in an episode; all of them end it with their score."""
    async with contextlib.AsyncExitStack() as stack:
        guests = [await stack.enter_async_context(client(server.ws)) for _ in range(OTHERS)]
        for guest in guests:
            await guest.reset()
        yield Bystanders(guests)
        ends = [await guest.call("end_turn", response="0.5") for guest in guests]
        assert [end["reward"] for end in ends] == [0.5] * OTHERS


async def killed(guest: Client) -> str:
    pid = int((await guest.call("where"))["observation"]["result"]["structured_content"]["pid"])
    await guest.send_call("sleep", seconds=60)
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    return str((await guest.receive())["data"]["metadata"].get("error", ""))


def calling(tool: str, **arguments: object) -> Callable[[Client], Awaitable[str]]:
    async def call(guest: Client) -> str:
        return str((await guest.call(tool, **arguments))["metadata"].get("error", ""))

    return call


@pytest.mark.parametrize(
    ("what", "injected", "misbehave", "error"),
    [
        ("an env worker killed", "SIGKILL inside a call", killed, "was killed by SIGKILL"),
        ("an env that leaks 2 GB", "4 GB taken in a call", calling("leak", megabytes=4096), "max_memory_mb (2048)"),
        ("an env in an endless loop", "a call that never returns", calling("spin"), "limits.call_timeout"),
        ("an env that forks", "os.fork, and both return", calling("fork"), None),
        ("an env that prints 10 MB", "10 MB on stdout in a call", calling("chatter", megabytes=10), None),
        ("an env that calls os._exit", "os._exit(3) in a call", calling("leave", status=3), "with status 3"),
    ],
    ids=["killed", "leaks", "spins", "forks", "prints", "exits"],
)
async def test_an_environment_costs_its_own_episode_and_the_others_no_time(
    request: pytest.FixtureRequest,
    fault: Fault,
    what: str,
    injected: str,
    misbehave: Callable[[Client], Awaitable[str]],
    error: str | None,
) -> None:
    fault.fault, fault.injected = what, f"{injected}, beside {OTHERS} other sessions"
    server = request.getfixturevalue("hasty" if error == "limits.call_timeout" else "server")
    errors: list[str] = []

    async def misbehaving() -> None:
        async with client(server.ws) as guest:
            await guest.reset()
            errors.append(await misbehave(guest))
            if error is None:
                # One answer came, and no other one: the next request gets its own.
                assert (await guest.call("end_turn", response="1"))["reward"] == 1.0

    async def nothing() -> None:
        pass

    ratio = float("inf")
    async with bystanders(server) as others:
        for _ in range(ROUNDS):
            calm = p99(await others.latencies(nothing, PERIOD))
            ratio = min(ratio, p99(await others.latencies(misbehaving, PERIOD)) / calm)
            if ratio <= 2.0:
                break
    assert all(said == "" if error is None else error in said for said in errors), errors
    assert ratio <= 2.0
    await until(lambda: len(workers(server)) == IDLE)
    fault.seen = f"{errors[0] or 'one answer'}; the others' calls take {ratio:.1f} times as long at p99"
    fault.lost = "nothing" if error is None else "its own episode"


async def test_an_environment_that_forks_for_ever_is_ended_with_all_it_started(server: Server, fault: Fault) -> None:
    fault.fault = "an env that forks for ever"
    fault.injected = f"processes of 64 MB, on and on, beside {OTHERS} other sessions"

    async def misbehaving() -> None:
        async with client(server.ws) as guest:
            await guest.reset()
            fault.seen = await calling("multiply")(guest)

    async with bystanders(server) as others:
        # Those processes compute beside the others for as long as they live, so how long calls take is not promised.
        slowest = p99(await others.latencies(misbehaving, PERIOD))
    assert "processes that it started, over limits.max_memory_mb (2048)" in fault.seen
    await until(lambda: len(workers(server)) == IDLE)
    fault.seen += f"; the others go on, their calls took {1000 * slowest:.0f} ms at p99"
    fault.lost = "its own episode"


@pytest.mark.parametrize("processes", [False, True], ids=["thread", "process"])
async def test_an_environment_that_computes_between_two_calls_is_ended(
    tmp_path: Path, fault: Fault, processes: bool
) -> None:
    fault.fault = f"an env whose {'child process' if processes else 'thread'} computes for ever between two calls"
    fault.injected = "an endless loop left behind by a call, with max_cpu_seconds = 1"
    folder = write_trials(tmp_path, "processes", workers=1, caps="max_cpu_seconds = 1")
    with serving(folder) as server:
        async with client(server.ws) as guest, client(server.ws) as other:
            await other.reset()
            await guest.reset()
            await guest.text("burn", processes=processes)
            both = workers(server)
            await until(lambda: len(workers(server)) < len(both), 60)
            fault.seen = (await guest.call("echo", text="still there?"))["metadata"]["error"]
            assert "s of processor time" in fault.seen
            assert "over limits.max_cpu_seconds (1)" in fault.seen
            assert await other.text("echo", text="unhurt") == "unhurt"
    fault.lost = "its own episode"


@pytest.mark.parametrize("mode", ["threads", "processes"])
async def test_a_log_that_nobody_reads_stops_nobody(tmp_path: Path, fault: Fault, mode: str) -> None:
    fault.fault = f"an env that prints 10 MB, and nobody reads the server's output ({mode})"
    fault.injected = "10 MB printed in a call, into a pipe that is full after 64 KB; then environments that fail"
    folder = write_trials(tmp_path, mode, limit=3)
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        line = (await asyncio.to_thread(process.stdout.readline)).decode()
        url = line.strip().split(" on http://")[-1]
        async with client(f"ws://{url}/ws") as guest, client(f"ws://{url}/ws") as other:
            await guest.reset()
            await other.reset()
            error = (await guest.call("chatter", megabytes=10))["metadata"]["error"]
            assert "limits.call_timeout" in error
            for _ in range(3):  # each of which the server logs, with a traceback
                assert (await guest.reset())["done"] is False
                assert "error" in (await guest.call("fail"))["metadata"]
            assert await other.text("echo", text="unhurt") == "unhurt"
            assert (await other.call("end_turn", response="1"))["reward"] == 1.0
        began = time.monotonic()
        process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0
        took = time.monotonic() - began
        assert took < within(14.0)
    finally:
        process.kill()
        process.communicate()
    fault.seen = f"{error}; the others go on, and SIGTERM ends the server in {took:.0f} s"
    fault.lost = "its own episode, and the log that had no room"


def workers(server: Server) -> list[int]:
    """The worker processes, and whatever they started."""
    (template,) = [
        child
        for child in psutil.Process(server.process.pid).children()
        if "agent_env.hosting.template" in child.cmdline()
    ]
    return [process.pid for process in template.children(recursive=True)]
