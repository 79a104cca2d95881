"""Knows the answer; errs by answering the question of another seed."""

from __future__ import annotations

import json
import random

from agent_env import Given, Reply, Turn
from agent_env.demonstrator import Play

from .generators import make_question


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Answer one question, wrongly with probability `error_rate`."""
    (text,) = yield Given()
    given = json.loads(text)
    name, held_out = given["env"]["generator"], given["env"]["held_out"]
    seed = rng.getrandbits(40) if rng.random() < error_rate else given["seed"]
    yield Reply(f"<answer>{make_question(name, seed, held_out=held_out).answer}</answer>")
