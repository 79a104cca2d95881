"""Charges in the three cheapest hours and discharges in the three dearest, heedless of whether the battery can."""

from __future__ import annotations

import random
import re

from agent_env import Call, Reply, Turn
from agent_env.demonstrator import Play

from .battery import LETTERS

_HOURS = 3


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one day; each letter of the plan is drawn anew, at random, with probability `error_rate`."""
    (forecast,) = yield Call("forecast")
    plan = [rng.choice(LETTERS) if rng.random() < error_rate else letter for letter in cheap_and_dear(forecast)]
    yield Call("submit_schedule", {"plan": "".join(plan)})
    yield Reply("done")


def cheap_and_dear(forecast: str) -> str:
    """The plan for a forecast: charge when it is cheapest, discharge when it is dearest; ties go by the hour."""
    line = re.search(r"^price .*?:(.*)$", forecast, re.MULTILINE)
    assert line is not None, f"the forecast has no prices: {forecast!r}"
    prices = [int(price) for price in line[1].split()]
    by_price = sorted(range(len(prices)), key=lambda hour: prices[hour])
    plan = dict.fromkeys(by_price[:_HOURS], "C") | dict.fromkeys(by_price[-_HOURS:], "D")
    return "".join(plan.get(hour, "H") for hour in range(len(prices)))
