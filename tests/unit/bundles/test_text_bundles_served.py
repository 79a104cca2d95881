"""What a trainer sees of the text bundles: every field of every step, over the wire."""

import pytest

from agent_env import load_bundle
from agent_env.bundles.key_door.grid import make_room, shortest
from agent_env.bundles.sokoban.making import make_puzzle
from agent_env.openenv import build_app
from agent_env.training.sessions import Ended, Shared, opened
from support.inprocess import running

MOVES = ["up", "down", "left", "right"]


@pytest.mark.parametrize(
    ("name", "way", "reward", "actions", "step"),
    [
        ("key_door", shortest(*make_room(6, 0, held_out=False)), 10.0, MOVES, "goal"),
        ("sokoban", make_puzzle(6, 1, 0, held_out=False).solution, 10.9, [*MOVES, "still"], "solve"),
    ],
)
async def test_a_success(name, way, reward, actions, step):
    with running(build_app(load_bundle(name))) as server:
        async with opened(Shared(server.url), "train", 0) as session:
            seen = [session.observation]
            for action in way:
                answer = await session.call("act", {"action": action})
                assert not answer.is_error
                assert answer.text == answer.observation["text"]
                seen.append(answer.observation)
            late = await session.call("act", {"action": "up"})
            ended = await session.finish("done")
    assert all(observation["actions"] == actions for observation in seen)
    assert [observation["terminated"] for observation in seen] == [False] * len(way) + [True]
    assert not any(observation["truncated"] for observation in seen)
    assert [observation["info"] for observation in seen] == [{}] * len(way) + [{"success": True}]
    assert seen[-1]["reward"] == reward
    assert len({observation["state"] for observation in seen}) == len(seen)
    assert (late.is_error, late.observation) == (True, None)
    assert ended == Ended(1.0, {step: 1.0})


async def test_a_step_limit_and_the_seed_of_a_group():
    with running(build_app(load_bundle("gym_cards"))) as server:
        shared, starts = Shared(server.url), []
        for seed in (7, 7, 8):
            async with opened(shared, "train-number_line", 0, seed=seed) as session:
                starts.append(session.observation["text"])
                seen = [(await session.call("act", {"action": "stay"})).observation for _ in range(10)]
                ended = await session.finish("done")
            assert [observation["truncated"] for observation in seen] == [False] * 9 + [True]
            assert [observation["reward"] for observation in seen] == [-1.0] * 10
            assert {observation["state"] for observation in seen} == {starts[-1]}
            assert (seen[-1]["terminated"], seen[-1]["info"]) == (False, {"success": False})
            assert ended == Ended(0.0, {"game": 0.0})
    assert starts[0] == starts[1] != starts[2]
