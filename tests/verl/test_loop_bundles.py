"""The built-in bundles, served and played through the loop by their own demonstrators in a model's place."""

import asyncio
import json
import random

import pytest

from agent_env import load_bundle
from agent_env.demonstrator import Given, Look, Reply
from agent_env.demonstrator import play as demonstrated
from agent_env.episode import Episode
from agent_env.hosting.local import LocalHandle
from agent_env.training.shared import Shared
from support.servers import serving
from support.verl_tier import Written, hermes, rollout, tool_responses, trainer_config


class Demonstrating:
    """A reply of the stand-in model: the demonstrator's next move, given the answers in the prompt."""

    def __init__(self, tokenizer, bundle, task):
        self.tokenizer, self.turns, self.demonstrate = tokenizer, list(task.turns), bundle.demonstrator
        self.given = json.dumps({"env": task.env, "seed": task.seed})
        self.rng = random.Random(0)
        self.turn, self.seen = None, 0

    def __call__(self, prompt_ids):
        prompt = self.tokenizer.decode(prompt_ids)
        answers = tool_responses(prompt)
        new, self.seen = answers[self.seen :], len(answers)
        if self.turn is None:
            turn = self.turns.pop(0)
            self.turn = self.demonstrate(turn, self.rng, 0.0)
            move = next(self.turn)
            if isinstance(move, Look):
                move = self.turn.send([prompt.split(f"{turn.prompt}\n\n")[1].split("<|im_end|>")[0]])
            elif isinstance(move, Given):
                move = self.turn.send([self.given])
        else:
            move = self.turn.send(new)
        if isinstance(move, Reply):
            self.turn = None
            return hermes(("end_turn", {"response": move.text})) if self.turns else move.text
        return hermes(*[(call.name, call.arguments) for call in (move if isinstance(move, list) else [move])])


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("inbox", ["answer-1", "answer-2"]),
        ("gridsim", ["grade"]),
        ("key_door", ["goal"]),
        ("sokoban", ["solve"]),
        ("gym_cards", ["game"]),
    ],
)
async def test_a_built_in_bundle(qwen3, tmp_path, name, keys):
    bundle = load_bundle(name)
    with serving(name) as server:
        rows = await asyncio.to_thread(Written, Shared(server.url), tmp_path / "data")
        for task in (bundle.tasks("train")[1], bundle.tasks("eval")[2]):
            model = Demonstrating(qwen3, bundle, task)
            config = trainer_config(multi_turn__max_parallel_calls=8)
            played = await rollout(qwen3, rows, task.id, *[model] * 20, config=config)
            expected = await demonstrated(
                Episode(bundle, task, LocalHandle(bundle)), bundle.demonstrator, random.Random(0), 0.0
            )
            assert played.output.reward_score == pytest.approx(expected.ended.reward)
            assert expected.ended.reward > 0.3
            assert list(played.info)[: len(keys)] == [f"score/{key}" for key in keys]
            assert played.info[f"score/{keys[0]}"] == pytest.approx(expected.ended.scores[keys[0]])
            assert played.info["attempts"] == 1
