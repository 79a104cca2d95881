"""Solves the room from wherever it is, and gives up where it cannot be solved; errs by acting at random."""

from __future__ import annotations

import random

from agent_env import Call, Look, Reply, Turn
from agent_env.demonstrator import Play

from .env import SOLVED, USED_UP
from .room import ACTIONS, read
from .solver import solve


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one room; each action is drawn anew, at random, with probability `error_rate`."""
    (seen,) = yield Look()
    plan: tuple[str, ...] = ()
    while not seen.endswith((SOLVED, USED_UP)):
        if not plan:
            solution = solve(*read(seen))
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
    yield Reply("done")
