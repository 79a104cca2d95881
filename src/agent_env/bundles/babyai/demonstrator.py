"""BabyAI's own bot, which plans in a world of its own beside the episode's; errs by an action at random.

The bot plans again after any action. Where an error brings it into a state that it was not written for, it begins anew
from there, and acts at random if that does not help.
"""

from __future__ import annotations

import json
import random
from typing import Any

from minigrid.utils.baby_ai_bot import BabyAIBot

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .env import ACTIONS
from .levels import make_world


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one world; each action is drawn anew, at random, with probability `error_rate`."""
    (text,) = yield Given()
    given = json.loads(text)
    world = make_world(given["env"]["level"], given["seed"], held_out=given["env"]["held_out"])
    bot, done, last = BabyAIBot(world), False, None
    while not done:
        bot, best = _planned(world, bot, last)
        last = rng.randrange(len(ACTIONS)) if best is None or rng.random() < error_rate else best
        _, _, terminated, truncated, _ = world.step(last)
        done = terminated or truncated
        yield Call("act", {"action": ACTIONS[last]})
    yield Reply("done")


def _planned(world: Any, bot: Any, last: int | None) -> tuple[Any, int | None]:
    """The bot that plans on, and its action; None if it has none."""
    for planner, taken in ((bot, last), (BabyAIBot(world), None)):
        try:
            action = int(planner.replan(taken))
        except Exception:  # asserts, lookups and an error of its own: whatever it was not written for
            continue
        if action < len(ACTIONS):  # else it takes the mission for accomplished
            return planner, action
    return bot, None
