"""The built-in bundles in the step layout, with what their demonstrators do as the model's replies."""

import asyncio
import random

import pytest

from agent_env import load_bundle
from agent_env.demonstrator import play as demonstrated
from agent_env.episode import Episode
from agent_env.hosting.local import LocalHandle
from agent_env.training.shared import Shared
from support.servers import serving
from support.verl_tier import Written, hermes, rollout, trainer_config


def replies(shown, by_text):
    """The messages a model would write to do what was demonstrated."""
    for turn in shown.turns:
        for move in turn.moves:
            if by_text:
                yield f"<action>{move.calls[0].arguments['action']}</action>"
            else:
                yield hermes(*[(call.name, call.arguments) for call in move.calls])
        if not by_text:
            yield turn.reply


@pytest.mark.parametrize(
    ("name", "by_text"),
    [("inbox", False), ("gridsim", False), ("key_door", True), ("sokoban", True), ("gym_cards", True)],
)
async def test_a_built_in_bundle(qwen3, tmp_path, name, by_text):
    bundle = load_bundle(name)
    with serving(name) as server:
        rows = await asyncio.to_thread(Written, Shared(server.url), tmp_path / "data", context="steps")
        for task in (bundle.tasks("train")[1], bundle.tasks("eval")[2]):
            expected = await demonstrated(
                Episode(bundle, task, LocalHandle(bundle)), bundle.demonstrator, random.Random(0), 0.0
            )
            script = list(replies(expected, by_text))
            config = trainer_config(multi_turn__max_parallel_calls=8)
            played = await rollout(qwen3, rows, task.id, *script, config=config)
            assert len(played.output) == len(script)
            assert played.output[0].reward_score == pytest.approx(expected.ended.reward)
            assert played.rows[0]["episode_reward"] == played.output[0].reward_score
            assert all(row["valid"] and row["admissible"] for row in played.rows)
            assert [row["next_state"] for row in played.rows[:-1]] == [row["state"] for row in played.rows[1:]]
            assert (played.rows[-1]["terminated"], played.rows[-1]["truncated"]) == (True, False)
            if by_text:
                assert played.rows[0]["success"] is (expected.ended.reward == 1.0) is True
            else:
                # What they answer is no observation: the episode's reward is the last step's.
                rewards = [row["step_reward"] for row in played.rows]
                assert rewards == [0.0] * (len(script) - 1) + [played.output[0].reward_score]
