"""The best a battery can do with a day, by linear programming, and the grade of a plan against it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import linprog

from .battery import (
    CAPACITY,
    EFFICIENCY,
    FIRST_CHARGE,
    LAST_CHARGE,
    POWER,
    export_price,
    settle,
)
from .day import HOURS, Day, draw_day

NO_GAIN = 0.01  # EUR: on a day with less to gain than this, holding is as good as any plan


def least_cost(day: Day) -> float:
    """The day's least cost in EUR over every way to run the battery, not only whole hours.

    Variables, 24 each: energy charged c and discharged d (MWh at the cells), imported i and exported e (MWh).
    Minimise Σ price·i − export_price·e with i − e = load − solar + c/η − d·η, c + d ≤ power (an hour is shared between
    the two), 0 ≤ charge ≤ capacity after each hour, and the charge due at midnight. Export never earns more than
    import costs, so no optimum needs both in one hour, and the problem is convex without integers. A plan of letters
    is one of its feasible points, so none is better.
    """
    each, before = np.eye(HOURS), np.tril(np.ones((HOURS, HOURS)))
    none = np.zeros((HOURS, HOURS))
    result = linprog(
        c=np.concatenate([np.zeros(2 * HOURS), day.price, -export_price(day.price)]),
        A_eq=np.hstack([-each / EFFICIENCY, each * EFFICIENCY, each, -each]),
        b_eq=day.load - day.solar,
        A_ub=np.vstack(
            [
                np.hstack([each, each, none, none]),
                np.hstack([before, -before, none, none]),
                np.hstack([-before, before, none, none]),
            ]
        ),
        b_ub=np.concatenate(
            [
                np.full(HOURS, POWER),
                np.full(HOURS, CAPACITY - FIRST_CHARGE),
                np.append(np.full(HOURS - 1, FIRST_CHARGE), FIRST_CHARGE - LAST_CHARGE),
            ]
        ),
        bounds=(0, None),
        method="highs",
    )
    if (
        not result.success or result.fun is None
    ):  # holding all day is feasible and the cost is bounded: HiGHS itself has failed
        raise RuntimeError(f"the day's linear program was not solved: {result.message}")
    return result.fun


def grade(day: Day, cost: float, best: float) -> float:
    """How much of the day's possible gain a cost realises, 0..1.

    ``(cost without the battery - cost) / (cost without the battery - best)``, clipped. None of the bundle's days is
    flat, but a day on which the battery cannot help (a gain under a cent) has a grade too: 1 for a plan that costs no
    more than the best one, else 0.
    """
    without = settle(day, np.zeros(HOURS))
    if without - best < NO_GAIN:
        return float(cost <= best + NO_GAIN)
    return float(np.clip((without - cost) / (without - best), 0.0, 1.0))


@lru_cache(maxsize=1024)
def least_cost_of(seed: int) -> float:
    """`least_cost` of the day of a seed, solved once in a process: a group plays one day many times."""
    return least_cost(draw_day(seed))
