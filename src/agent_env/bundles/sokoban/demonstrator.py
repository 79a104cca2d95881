"""Solves the room from wherever it is, and gives up where it cannot be solved; errs by acting at random.

It knows the room from what the environment was given, so it plays what is shown as a picture as well.
"""

from __future__ import annotations

import json
import random

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .env import SOLVED, USED_UP
from .making import make_puzzle
from .room import ACTIONS, move
from .solver import solve


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one room; each action is drawn anew, at random, with probability `error_rate`."""
    (given,) = yield Given()
    told = json.loads(given)
    env = told["env"]
    room, state, _ = make_puzzle(env["size"], env["boxes"], told["seed"], held_out=env["held_out"])
    deltas = {**room.deltas(), "still": 0}
    plan: tuple[str, ...] = ()
    seen = ""
    while not seen.endswith((SOLVED, USED_UP)):
        if not plan:
            solution = solve(room, state)
            if solution is None:
                yield Reply("This room cannot be solved any more.")
                return
            plan = solution
        if rng.random() < error_rate:
            action, plan = rng.choice(ACTIONS), ()
        else:
            action, *rest = plan
            plan = tuple(rest)
        (seen,) = yield Call("act", {"action": action})
        state = move(room, state, deltas[action])
    yield Reply("done")
