"""A session's answers, with real environments in threads and no network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_env.bundle import load_bundle
from agent_env.openenv import messages
from agent_env.openenv.admission import Admission
from agent_env.openenv.catalogue import Catalogue
from agent_env.openenv.session import Session
from agent_env.openenv.sessions import Sessions
from support.bundles import jsonl
from support.trials import write_trials
from support.waiting import until, within


class Player:
    """Asks a session as a client does, without the socket."""

    def __init__(self, session: Session, sessions: Sessions) -> None:
        self.session, self.sessions = session, sessions

    async def ask(self, **message: Any) -> dict[str, Any]:
        request = messages.parse(json.dumps(message))
        assert not isinstance(request, messages.Close)
        data: dict[str, Any] = json.loads(await self.session.answer(request))["data"]
        return data

    async def reset(self, split: str = "train", index: int = 0, **more: Any) -> dict[str, Any]:
        return await self.ask(type="reset", data={"split": split, "index": index, **more})

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask(type="step", data={"type": "call_tool", "tool_name": tool, "arguments": arguments})

    async def list_tools(self) -> dict[str, Any]:
        return await self.ask(type="step", data={"type": "list_tools"})


@contextlib.asynccontextmanager
async def playing(folder: Path, max_message: int = 1 << 20) -> AsyncIterator[Player]:
    catalogue = Catalogue(load_bundle(folder), capacity=4)
    sessions = Sessions(catalogue, Admission(4, queue_limit=0, timeout=1.0), max_message)
    await sessions.start()
    session, slot = await sessions.open()
    try:
        yield Player(session, sessions)
    finally:
        await sessions.end(session, slot)
        await sessions.shutdown()


@pytest.fixture
async def player(tmp_path: Path) -> AsyncIterator[Player]:
    async with playing(write_trials(tmp_path, log=str(tmp_path / "log"))) as player:
        yield player


def failure(data: dict[str, Any]) -> str:
    """The error of an answer that must say the episode cannot go on."""
    assert data["done"] is True
    assert data["reward"] is None
    assert data["metadata"]["status"] == "error"
    assert data["observation"]["metadata"] == data["metadata"]
    error: str = data["metadata"]["error"]
    return error


async def test_reset_tells_prompt_task_and_first_observation(player: Player) -> None:
    data = await player.reset()
    assert (data["done"], data["reward"]) == (False, None)
    assert data["metadata"] == {
        "prompt": "What is your score?",
        "system_prompt": "Be brief.",
        "task": {"id": "plain", "name": "plain", "split": "train", "index": 0, "seed": 7, "turn": 0, "turns": 1},
        "observation": {
            "text": "seed 7",
            "images": [],
            "actions": ["echo"],
            "state": data["metadata"]["observation"]["state"],
            "reward": 0.0,
            "terminated": False,
            "truncated": False,
            "info": {"seed": 7},
        },
    }
    again = await player.reset(seed=11)
    assert again["metadata"]["observation"]["text"] == "seed 11"
    assert again["metadata"]["task"]["seed"] == 11


async def test_splits_and_indices(player: Player) -> None:
    held_out = await player.reset("eval", 0)
    assert held_out["metadata"]["task"]["id"] == "held-out"
    last = await player.reset("all", 5)
    assert last["metadata"]["task"] == {**held_out["metadata"]["task"], "split": "all", "index": 5}
    assert (await player.ask(type="reset"))["metadata"]["task"]["id"] == "plain"


BAD_RESETS = [
    ({"split": "test", "index": 0}, "there is no split 'test'; the splits are all, train, eval"),
    ({"split": "train", "index": 5}, "split 'train' has 5 tasks; there is none at index 5"),
    ({"split": "train", "index": -1}, "there is none at index -1"),
    ({"split": "train"}, "give both split and index"),
    ({"index": 0}, "give both split and index"),
    ({"split": "train", "index": "0"}, "index: expected an integer, got '0'"),
    ({"split": "train", "index": True}, "index: expected an integer, got True"),
    ({"split": "train", "index": 0.0}, "index: expected an integer, got 0.0"),
    ({"split": 1, "index": 0, "seed": "x"}, "split: expected a string, got 1; seed: expected an integer, got 'x'"),
    ({"episode_id": 3}, "episode_id: expected a string"),
    ({"split": "\x00", "index": 0}, "there is no split '\\x00'"),
]


@pytest.mark.parametrize(("data", "error"), BAD_RESETS, ids=str)
async def test_a_reset_that_asks_for_what_is_not_there(player: Player, data: dict[str, Any], error: str) -> None:
    assert error in failure(await player.ask(type="reset", data=data))
    assert (await player.reset())["done"] is False


async def test_keys_that_openenv_would_filter_are_ignored(player: Player) -> None:
    assert (await player.reset(difficulty="hard", timeout_s=3))["done"] is False


async def test_before_a_reset_everything_is_an_error_and_no_exception(player: Player) -> None:
    listed = await player.list_tools()
    assert listed["observation"]["tools"] == []
    assert "reset first" in failure(listed)
    assert "reset first" in failure(await player.call("echo", text="a"))
    assert "reset first" in failure(await player.call("end_turn", response="a"))
    state = await player.ask(type="state")
    assert (state["episode_id"], state["step_count"], state["done"]) == (None, 0, False)


async def test_tools_are_listed_with_end_turn(player: Player) -> None:
    await player.reset()
    data = await player.list_tools()
    names = [tool["name"] for tool in data["observation"]["tools"]]
    assert names[0] == "echo"
    assert names[-1] == "end_turn"
    assert all(set(tool) == {"name", "description", "input_schema"} for tool in data["observation"]["tools"])
    assert data["done"] is False


async def test_a_models_mistakes_are_answers_and_the_episode_goes_on(player: Player) -> None:
    await player.reset()
    unknown = await player.call("ecko", text="a")
    assert unknown["observation"]["error"]["error_type"] == "tool_not_found"
    wrong = await player.call("echo", text=1, more=2)
    assert wrong["observation"]["error"]["error_type"] == "invalid_args"
    assert "text" in wrong["observation"]["error"]["message"]
    assert "more" in wrong["observation"]["error"]["message"]
    no_reply = await player.call("end_turn", reply="a")
    assert no_reply["observation"]["error"]["error_type"] == "invalid_args"
    refused = await player.call("refuse")
    assert refused["observation"]["error"] is None
    assert refused["observation"]["result"]["is_error"] is True
    assert refused["observation"]["result"]["content"] == [{"type": "text", "text": "not like this"}]
    assert not any(data["done"] for data in (unknown, wrong, no_reply, refused))
    assert (await player.call("echo", text="still here"))["observation"]["result"]["data"] == "still here"


async def test_an_observation_of_a_tool_is_in_the_metadata(player: Player) -> None:
    await player.reset()
    data = await player.call("look", text="a room", reward=0.5)
    assert data["observation"]["result"]["data"] == "a room"
    assert data["metadata"]["observation"]["text"] == "a room"
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert data["observation"]["result"]["content"] == [{"type": "text", "text": "a room"}, picture]
    assert data["metadata"]["observation"]["images"] == []  # a picture travels once
    assert data["metadata"]["observation"]["reward"] == 0.5
    assert data["reward"] is None


async def test_the_end_of_a_one_turn_episode(player: Player) -> None:
    await player.reset()
    data = await player.call("end_turn", response="0.25")
    assert (data["done"], data["reward"]) == (True, 0.25)
    assert data["metadata"]["scores"] == {"first": 0.25}
    assert data["metadata"]["task"]["id"] == "plain"
    assert "status" not in data["metadata"]
    assert "the episode is over" in failure(await player.call("echo", text="a"))
    state = await player.ask(type="state")
    assert (state["done"], state["step_count"], state["task_id"]) == (True, 1, "plain")


async def test_the_second_turn_opens_with_the_first_ones_end(player: Player) -> None:
    await player.reset("train", 1)
    data = await player.call("end_turn", response="1")
    assert data["done"] is False
    assert data["observation"]["result"]["data"] == {"prompt": "Say yes.", "system_prompt": ""}
    assert data["metadata"]["prompt"] == "Say yes."
    assert data["metadata"]["task"]["turn"] == 1
    assert data["metadata"]["observation"] is None
    assert (await player.ask(type="state"))["turn"] == 1
    last = await player.call("end_turn", response="no")
    assert (last["done"], last["reward"]) == (True, 0.5)
    assert last["metadata"]["scores"] == {"first": 1.0, "second": 0.0}


async def test_a_failure_of_the_environment_ends_the_episode_without_a_reward(player: Player) -> None:
    for tool, error in [
        ("fail", "tool 'fail' raised RuntimeError: the stove is on fire"),
        ("exit", "KeyboardInterrupt"),
        ("nan", "NaN"),
        ("odd", "Observation.info"),
    ]:
        await player.reset()
        data = await player.call(tool)
        assert error in failure(data)
        assert data["observation"]["tool_name"] == tool
        assert data["metadata"]["task"]["id"] == "plain"
        assert error in failure(await player.call("echo", text="a"))


async def test_what_the_authors_code_raised_is_logged_with_its_place_and_a_clients_mistake_is_not(
    player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    await player.call("fail")  # before a reset
    await player.reset("train", 99)
    assert caplog.records == []
    await player.reset()
    await player.call("fail")
    (record,) = caplog.records
    assert record.getMessage() == "task 'plain' failed: tool 'fail' raised RuntimeError: the stove is on fire"
    assert "env.py" in caplog.text  # where it was raised
    assert "in fail" in caplog.text


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1.5", "-0.1", "many"])
async def test_a_score_that_is_none_is_a_failure_that_names_the_step(player: Player, score: str) -> None:
    await player.reset()
    data = await player.call("end_turn", response=score)
    assert "first" in failure(data)


@pytest.mark.parametrize(("index", "error"), [(2, "there is no scene"), (4, "NaN")])
async def test_a_reset_that_fails(player: Player, index: int, error: str) -> None:
    data = await player.reset("train", index)
    assert error in failure(data)
    assert data["metadata"]["task"]["index"] == index
    assert (await player.reset())["done"] is False


async def test_text_that_is_no_unicode_comes_out_readable(player: Player) -> None:
    await player.reset()
    assert (await player.call("surrogate"))["observation"]["result"]["data"] == "a\ufffdb"


async def test_nul_and_every_other_character_go_through(player: Player) -> None:
    await player.reset()
    text = "\x00\x1f \u2028 \U0001f600 é"
    assert (await player.call("echo", text=text))["observation"]["result"]["data"] == text


async def test_numbers_beyond_64_bits_go_through(player: Player, tmp_path: Path) -> None:
    data = await player.reset(seed=2**80)
    assert data["metadata"]["observation"]["info"] == {"seed": 2**80}


async def test_a_long_answer_is_cut_and_says_so(player: Player) -> None:
    await player.reset()
    text = (await player.call("big", size=70_000))["observation"]["result"]["data"]
    assert text.startswith("x" * 65_536 + "\n[cut")
    assert "70000" in text


async def test_an_answer_that_is_too_long_for_a_message_is_a_failure_that_says_so(tmp_path: Path) -> None:
    async with playing(write_trials(tmp_path, max_answer=1 << 20), max_message=100_000) as player:
        await player.reset()
        error = failure(await player.call("big", size=90_000))
        assert "max_answer_bytes" in error
        assert "100000" in error


async def test_a_deadline_ends_the_episode(tmp_path: Path) -> None:
    async with playing(write_trials(tmp_path, limit=2)) as player:
        await player.reset()
        began = time.monotonic()
        error = failure(await player.call("nap", seconds=60))
        assert time.monotonic() - began < within(10)
        assert "tool 'nap'" in error
        assert "call_timeout" in error
        assert "reset_timeout" in failure(await player.reset("train", 3))


async def test_each_environment_is_closed_once(player: Player, tmp_path: Path) -> None:
    await player.reset()
    await player.reset()
    await player.call("end_turn", response="1")
    await player.session.close()
    await asyncio.sleep(0)
    log = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert log == ["reset", "close", "reset", "close"]


async def test_closing_a_session_does_not_wait_for_an_environment_that_does_not_close(tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    async with playing(write_trials(tmp_path, log=str(log))) as player:
        await player.reset()
        step = asyncio.create_task(player.call("hold", path=str(gate)))
        await until(lambda: "hold" in log.read_text())
        step.cancel()
        await asyncio.wait([step])
        # Returns, though the thread is in the tool for as long as the gate is closed.
        await player.session.close()
        assert "close" not in log.read_text()
        gate.touch()
        await until(lambda: "close" in log.read_text())


async def test_a_session_closed_by_another_task_cancels_what_it_is_answering(player: Player, tmp_path: Path) -> None:
    await player.reset()
    step = asyncio.create_task(player.call("nap", seconds=60))
    await until(lambda: "nap" in (tmp_path / "log").read_text())
    await player.session.close()
    with pytest.raises(asyncio.CancelledError):
        await step
    await until(lambda: "cancelled" in (tmp_path / "log").read_text())


async def test_a_seed_of_the_task_is_used_unless_one_is_given(tmp_path: Path) -> None:
    folder = write_trials(tmp_path)
    turn = {"id": "t", "prompt": "p", "verifier": {"type": "env"}}
    (folder / "tasks/eval.jsonl").write_text(jsonl({"id": "seeded", "seed": 3, "turns": [turn]}))
    async with playing(folder) as player:
        assert (await player.reset("eval", 0))["metadata"]["observation"]["text"] == "seed 3"
        assert (await player.reset("eval", 0, seed=0))["metadata"]["observation"]["text"] == "seed 0"
