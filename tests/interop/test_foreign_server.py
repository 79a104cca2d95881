"""Our client against a task server made with OpenEnv's own server."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator

import pytest

from agent_env.errors import CallTimedOut, EpisodeFailed, EpisodeUnscored, ServerAtCapacity, SessionLost
from agent_env.training.rollout import play
from agent_env.training.sessions import Ended, NextTurn, Shared, opened, probe, read_tasks
from agent_env.training.tasks import END_TURN_TOOL, tasks_and_tools
from support.openenv_tasks import ForeignServer, openenv_server


@pytest.fixture(scope="module")
def server() -> Iterator[ForeignServer]:
    with openenv_server(tasks=1203, max_sessions=2) as running:
        yield running


async def test_an_episode_of_two_turns(server):
    async with opened(Shared(server.url), "train", 5, seed=1) as session:
        assert (session.prompt, session.system_prompt) == ("Add up to 5.", "You add numbers.")
        assert session.task["id"] == "train-5"
        assert [tool["function"]["name"] for tool in await session.list_tools()] == ["add", "add_one"]
        assert (await session.call("add", {"n": 2})).text == "2"
        assert (await session.call("add", {"n": 3})).text == "5"
        unknown = await session.call("fly", {})
        assert (unknown.text, unknown.is_error) == ("no tool fly", True)
        assert await session.end_turn("5") == NextTurn("Once more.", "")
        assert await session.finish("0") == Ended(0.5, {"turn-0": 1.0, "turn-1": 0.0})


async def test_its_tools_have_a_schema_even_where_it_says_none(server):
    add, add_one = await probe(Shared(server.url), "train", 0)
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert add["function"] == {"name": "add", "description": "Add a number.", "parameters": number}
    assert add_one["function"]["parameters"] == {"type": "object", "properties": {}}


async def test_tasks_are_read_in_pages(server):
    before = server.counts()
    seen: list[tuple[int, int]] = []
    tasks = await read_tasks(Shared(server.url), lambda done, total: seen.append((done, total)))
    assert tasks.env == "sums"
    assert {split: len(rows) for split, rows in tasks.splits.items()} == {"train": 1203, "test": 2, "empty": 0}
    row = tasks.splits["train"][1202]
    assert (row.id, row.name, row.index, row.prompt) == ("train-1202", "sum 1202", 1202, "Add up to 1202.")
    assert (row.system_prompt, row.toolset, row.turns, row.steps) == ("You add numbers.", None, None, ())
    assert seen == [(500, 1205), (1000, 1205), (1203, 1205), (1205, 1205)]
    # 500 + 500 + 203 of train and 2 of test; nothing of a split that is known to be empty.
    assert server.counts()["get_task_range"] - before.get("get_task_range", 0) == 4


async def test_tasks_without_a_toolset_share_one(server):
    before = server.counts()
    tasks = await tasks_and_tools(Shared(server.url))
    assert list(tasks.toolsets) == [None]
    row = tasks.splits["train"][7]
    # How many turns it has is not known, so a model is shown what opens the next one.
    assert [tool["function"]["name"] for tool in tasks.tools(row)] == ["add", "add_one", "end_turn"]
    assert tasks.tools(row)[-1] == END_TURN_TOOL
    after = server.counts()
    assert after["reset"] - before.get("reset", 0) == 1
    assert after["list_tools"] - before.get("list_tools", 0) == 1


@pytest.mark.parametrize("name", ["lost", "crash"])
async def test_its_failures_fail_the_episode(server, name):
    async with opened(Shared(server.url), "train", 0) as session:
        with pytest.raises(EpisodeFailed, match=r"the sandbox is gone|the environment crashed"):
            await session.call(name, {})


@pytest.mark.parametrize("response", ["nan", "none", "true"])
async def test_an_end_without_a_number_is_unscored(server, response):
    # OpenEnv turns a NaN into null on the way; either is no score.
    async with opened(Shared(server.url), "train", 0) as session:
        await session.end_turn("")
        with pytest.raises(EpisodeUnscored):
            await session.end_turn(response)


async def test_a_full_server_is_waited_for(server):
    shared = Shared(server.url)
    async with opened(shared, "train", 0), opened(shared, "train", 1) as second:
        with pytest.raises(ServerAtCapacity, match=r"2/2 sessions active.*waited \d"):
            async with opened(shared, "train", 2, deadline=time.monotonic() + 0.5):
                pass
        third = asyncio.create_task(play(shared, "train", 2, lambda session: session.finish("")))
        await asyncio.sleep(0.2)
        assert not third.done()
        await second.finish("")
    # Both are closed now, and the third has its turn.
    assert (await third).attempts == 1


async def test_a_call_past_its_deadline_ends_the_session_and_is_not_sent_again(server):
    async with opened(Shared(server.url, call_timeout=0.5), "train", 0) as session:
        with pytest.raises(CallTimedOut):
            await session.call("hang", {"seconds": 2, "n": 1})
        with pytest.raises(SessionLost):
            await session.call("add", {"n": 1})


async def test_a_killed_server_loses_its_sessions():
    with openenv_server() as doomed:
        async with opened(Shared(doomed.url), "train", 0) as session:
            hanging = asyncio.create_task(session.call("hang", {"seconds": 60}))
            await asyncio.sleep(0.3)
            doomed.process.send_signal(signal.SIGKILL)
            with pytest.raises(SessionLost, match="hang"):
                await hanging


async def test_a_part_of_the_task_api_may_be_missing():
    with openenv_server(without=["get_task_range"], tasks=7) as server:
        tasks = await read_tasks(Shared(server.url))
        assert len(tasks.splits["train"]) == 7
        assert set(server.counts()) == {"list_tasks"}
