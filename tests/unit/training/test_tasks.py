"""Tasks and tools of our own server: each toolset asked for once, and no task played."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_env.bundle import load_bundle
from agent_env.openenv import build_app
from agent_env.training.sessions import Shared
from agent_env.training.tasks import END_TURN_TOOL, tasks_and_tools
from support.bundles import jsonl, task, write_bundle
from support.inprocess import running
from support.peers import http_peer
from unit.training.test_task_api import Serves


def names(tools):
    return [tool["function"]["name"] for tool in tools]


@pytest.fixture
def three(tmp_path: Path):
    """Three bundles of three toolsets, a split each; the third has tasks of one and of two turns."""
    game = """
        from agent_env import Observation, TextEnvironment

        class Door(TextEnvironment):
            \"\"\"A door.\"\"\"

            def reset(self, task, seed):
                return Observation("A door.", actions=("open",))

            def step(self, action):
                return Observation("Open.", terminated=True)

            def score(self, reply):
                return 1.0
    """
    turns = [{"id": name, "prompt": name, "verifier": {"type": "env"}} for name in ("one", "two")]
    door = {
        "bundle.toml": 'name = "door"\ndescription = "d"\nenv = "env:Door"\nsplits = ["train"]\nreward = "mean"\n',
        "env.py": game,
        "tasks/train.jsonl": jsonl(task("a"), task("b", turns=turns)),
    }
    many = jsonl(*(task(f"t{i}") for i in range(700)))
    return {
        "train": load_bundle(write_bundle(tmp_path / "counter", {"tasks/train.jsonl": many})),
        "test": load_bundle("inbox"),
        "games": load_bundle(write_bundle(tmp_path / "door", door)),
    }


async def test_each_toolset_is_asked_for_once_and_no_task_is_played(three):
    with running(build_app(three)) as server:
        tasks = await tasks_and_tools(Shared(server.url))
    assert {split: len(rows) for split, rows in tasks.splits.items()} == {
        "all": 842,
        "train": 700,
        "test": 140,
        "games": 2,
    }
    assert len(tasks.toolsets) == 3
    assert sum(request.endswith("/toolset") for request in server.requests) == 3
    assert server.count("WS /ws") == 0
    # Two pages of train and of all, one of each other split.
    assert sum(request.endswith("/task_range") for request in server.requests) == 6
    by_split = {split: names(tasks.tools(rows[0])) for split, rows in tasks.splits.items()}
    assert by_split["train"] == by_split["all"] == ["add"]
    assert by_split["test"] == ["search_emails", "read_email", "end_turn"]
    assert by_split["games"] == ["act"]


async def test_end_turn_is_shown_where_it_opens_a_turn(three):
    with running(build_app(three)) as server:
        tasks = await tasks_and_tools(Shared(server.url))
    one, two = tasks.splits["games"]
    assert (one.turns, two.turns) == (1, 2)
    assert names(tasks.tools(one)) == ["act"]
    assert tasks.tools(two) == (*tasks.tools(one), END_TURN_TOOL)


async def test_the_steps_of_all_tasks(three):
    with running(build_app(three)) as server:
        assert (await tasks_and_tools(Shared(server.url))).steps == ("count", "answer-1", "answer-2", "one", "two")


async def test_progress_is_told(three):
    told: list[tuple[str, int, int]] = []
    with running(build_app(three)) as server:
        await tasks_and_tools(Shared(server.url), lambda what, done, total: told.append((what, done, total)))
    assert told[0] == ("reading tasks", 500, 1684)
    assert ("reading tasks", 1684, 1684) in told
    assert told[-4:] == [("learning toolsets", done, 3) for done in range(4)]


async def test_a_server_without_tasks_has_no_toolset():
    async with http_peer(Serves({"train": [], "test": []})) as server:
        tasks = await tasks_and_tools(Shared(server.url))
    assert tasks.splits == {"train": (), "test": ()}
    assert tasks.toolsets == {}
