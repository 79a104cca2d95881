"""Walks the shortest way from wherever it is; errs by moving at random."""

from __future__ import annotations

import random

from agent_env import Call, Look, Reply, Turn
from agent_env.demonstrator import Play

from .env import REACHED, USED_UP
from .grid import MOVES, read, shortest


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one room; each action is drawn anew, at random, with probability `error_rate`."""
    (seen,) = yield Look()
    while not seen.endswith((REACHED, USED_UP)):
        action = rng.choice([*MOVES]) if rng.random() < error_rate else shortest(*read(seen))[0]
        (seen,) = yield Call("act", {"action": action})
    yield Reply("done")
