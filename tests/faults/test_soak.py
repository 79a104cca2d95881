"""A server that plays thousands of episodes: it ends with no more than it began with."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from agent_env.bundle import BUILT_IN
from agent_env.training.sessions import opened
from agent_env.training.shared import Shared
from support.faults import Fault
from support.servers import Server, client, serving

SESSIONS = 64
FIRST = 800
"""Episodes before the server is looked at for the first time: pools and caches are full then."""
MOST_MB = 20.0
PLAN = "C" * 3 + "H" * 18 + "D" * 3


class Usage(NamedTuple):
    """What a server and its processes hold: memory in MB, what is shared counted once, and how many of each."""

    memory: float
    files: int
    threads: int
    processes: int


def usage(server: Server) -> Usage:
    """Raises psutil.NoSuchProcess if a worker ends meanwhile."""
    top = psutil.Process(server.process.pid)
    every = [top, *top.children(recursive=True)]
    return Usage(
        sum(process.memory_full_info().pss for process in every) / 2**20,
        sum(process.num_fds() for process in every),
        sum(process.num_threads() for process in every),
        len(every),
    )


async def settled(server: Server) -> Usage:
    """What the server holds once its numbers of files, threads and processes stay as they are for two seconds."""
    before: Usage | None = None
    for _ in range(30):
        await asyncio.sleep(2.0)
        try:
            now = usage(server)
        except psutil.NoSuchProcess:
            continue
        if before is not None and now[1:] == before[1:]:
            return now
        before = now
    raise AssertionError(f"an idle server does not come to rest: {before}")


async def play(server: Server, episodes: int) -> int:
    """Play so many episodes, `SESSIONS` at once; how many scored."""
    shared, scored, numbers = Shared(server.url), 0, iter(range(episodes))

    async def plays() -> None:
        nonlocal scored
        for number in numbers:
            async with opened(shared, "train", number % 400) as session:
                await session.call("forecast", {})
                await session.call("submit_schedule", {"plan": PLAN})
                ended = await session.finish("done")
            scored += ended.reward > 0

    await asyncio.gather(*(plays() for _ in range(SESSIONS)))
    return scored


async def free_slots(server: Server) -> int:
    """How many episodes the server can open at once; each has its thread or process then."""
    async with contextlib.AsyncExitStack() as stack:
        guests = [await stack.enter_async_context(client(server.ws, open_timeout=60)) for _ in range(SESSIONS)]
        answers = await asyncio.gather(*(guest.reset() for guest in guests))
    return sum(answer.get("done") is False for answer in answers)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("hosting", "episodes"), [("threads", 20_000), ("processes", 4_800)])
async def test_thousands_of_episodes(tmp_path: Path, fault: Fault, hosting: str, episodes: int) -> None:
    folder = tmp_path / "gridsim"
    shutil.copytree(BUILT_IN / "gridsim", folder, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = (folder / "bundle.toml").read_text()
    # No deadline is what is tested here, and a busy machine takes its time to start 64 processes at once.
    manifest = manifest.replace("_timeout = 10", "_timeout = 120").replace('mode = "threads"', f'mode = "{hosting}"')
    (folder / "bundle.toml").write_text(manifest)
    with serving(folder, "--max-sessions", str(SESSIONS), "--admission-timeout", "300") as server:
        assert await free_slots(server) == SESSIONS
        first = await play(server, FIRST)
        before = await settled(server)
        scored = await play(server, episodes)
        after = await settled(server)
        slots = await free_slots(server)
        assert server.stop() == 0
    assert slots == SESSIONS
    assert after[1:] == before[1:]
    grown = after.memory - before.memory
    assert grown < MOST_MB
    # Every 400 episodes are the same days, with one plan.
    assert scored * FIRST == first * episodes
    fault.fault = f"{episodes:,} episodes on one server, in {hosting}"
    fault.injected = f"{SESSIONS} clients that play one after the other"
    fault.seen = (
        f"{grown:+.1f} MB; {after.files} files, {after.threads} threads and {after.processes} processes, as before; "
        f"{slots} slots free"
    )
    fault.lost = "nothing"
