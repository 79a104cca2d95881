"""Follows the commands that TextWorld knows to lead to the goal; errs by an admissible command at random.

It plays a game of its own beside the episode's, to know the way from wherever an error has led it.
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
    game = Game(json.loads(given)["env"], plans=True)
    try:
        seen = game.start()
        for _ in range(STEPS):
            plan = game.plan()
            at_random = rng.random() < error_rate
            if not (at_random or plan):
                break
            command = rng.choice(seen.commands) if at_random else plan[0]
            yield Call("act", {"action": command})
            seen = game.do(command)
            if seen.won or seen.lost:
                break
    finally:
        game.close()
    yield Reply("done")
