"""A scripted player: it halves the range with each guess, and errs by guessing anything in it."""

from __future__ import annotations

import random

from agent_env import Call, Reply, Turn
from agent_env.demonstrator import Play

from .env import GUESSES, HIGHEST


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one turn: yield each call, get its answer back, end with a reply."""
    low, high = 1, HIGHEST
    for _ in range(GUESSES):
        number = rng.randint(low, high) if rng.random() < error_rate else (low + high) // 2
        (answer,) = yield Call("guess", {"number": number})
        if answer == "correct":
            break
        low, high = (number + 1, high) if answer == "higher" else (low, number - 1)
    yield Reply(f"It is {number}.")
