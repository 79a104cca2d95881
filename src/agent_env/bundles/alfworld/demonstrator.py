"""Follows the engine's planner, which knows where everything is; errs by an admissible command at random.

It plays a game of its own beside the episode's, to plan from wherever an error has led it.
"""

from __future__ import annotations

import json
import random

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .env import STEPS
from .game import Game


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one game; each command is drawn anew, at random, with probability `error_rate`."""
    (given,) = yield Given()
    game = Game.of(json.loads(given)["env"])
    try:
        seen, plan = game.start(), list(game.plan())
        for _ in range(STEPS):
            if rng.random() < error_rate:
                command, plan = rng.choice(seen.commands), []
            else:
                plan = plan or list(game.plan())
                command = plan.pop(0)
            yield Call("act", {"action": command})
            # Without errors the plan stands, and there is no need to follow.
            if error_rate:
                seen = game.do(command)
            if seen.won or not (plan or error_rate):
                break
    finally:
        game.close()
    yield Reply("done")
