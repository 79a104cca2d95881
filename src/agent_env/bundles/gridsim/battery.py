"""The battery, what a plan makes it do, and what a day then costs.

A plan is a letter an hour: C charges, H holds, D discharges. The charge is counted on the cell side, where an hour at
full power moves exactly 1 MWh, so it is a whole number of MWh; the losses, √0.9 each way, are met at the grid's side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .day import HOURS, Day, Hourly

CAPACITY = 4  # MWh
POWER = 1  # MW at the cells
FIRST_CHARGE = 2  # MWh at midnight
LAST_CHARGE = 2  # MWh at least, at the next midnight
EFFICIENCY = math.sqrt(0.9)  # each way: 0.9 for the round trip

LETTERS = ("C", "H", "D")
Letter = Literal["C", "H", "D"]
Reason = Literal["full", "empty", "reserve"]
_MOVE = {"C": POWER, "H": 0, "D": -POWER}


@dataclass(frozen=True)
class Clip:
    """An hour in which the battery could not follow the plan: it ran `ran` instead, because it was full or empty, or
    because the charge due at midnight (the reserve) was only to be reached that way."""

    hour: int
    ran: Letter
    reason: Reason


@dataclass(frozen=True)
class Outcome:
    """What a plan came to: the letters that ran, where they differ from the plan, and the day's cost in EUR."""

    ran: str
    clips: tuple[Clip, ...]
    cost: float


def run_plan(day: Day, plan: str) -> Outcome:
    """Run 24 letters C, H, D through a day. Any plan runs: what the battery cannot do is clipped.

    Raises:
        ValueError: the plan is not 24 letters of C, H and D.
    """
    if len(plan) != HOURS or set(plan) - set(_MOVE):
        raise ValueError(f"a plan is {HOURS} letters of C, H and D, got {plan!r}")
    charge, ran, clips = FIRST_CHARGE, "", []
    for hour, wanted in enumerate(plan):
        letter, reason = _possible(wanted, charge, hours_left=HOURS - 1 - hour)
        if reason is not None:
            clips.append(Clip(hour, letter, reason))
        charge += _MOVE[letter]
        ran += letter
    return Outcome(ran, tuple(clips), settle(day, drawn(ran)))


def _possible(wanted: str, charge: int, hours_left: int) -> tuple[Letter, Reason | None]:
    """The letter that runs in place of the wanted one, and why if it is another."""
    least = LAST_CHARGE - POWER * hours_left  # below this, not even charging in every hour left reaches the reserve
    if wanted == "C":
        return ("C", None) if charge + POWER <= CAPACITY else ("H", "full")
    if wanted == "D" and charge - POWER >= max(least, 0):
        return "D", None
    if charge < least:
        return "C", "reserve"
    if wanted == "H":
        return "H", None
    return "H", "empty" if charge - POWER < 0 else "reserve"


def drawn(ran: str) -> Hourly:
    """What the battery draws from the grid, MW, shape (24,); negative where it gives."""
    grid_side = {"C": POWER / EFFICIENCY, "H": 0.0, "D": -POWER * EFFICIENCY}
    return np.array([grid_side[letter] for letter in ran])


def export_price(price: Hourly) -> Hourly:
    """EUR/MWh earned by export: a tenth less than the price, and no more than the price where it is negative.

    A plain ``0.9 * price`` would pay for buying and selling at once in hours of negative price.
    """
    return np.minimum(price, 0.9 * price)


def settle(day: Day, battery: Hourly) -> float:
    """The day's cost in EUR with a battery that draws `battery` MW, shape (24,), from the grid."""
    net = day.load - day.solar + battery
    return float(np.sum(np.where(net >= 0, day.price, export_price(day.price)) * net))
