"""How well simple players do on GridSim's held-out days; prints the table of docs/gridsim.md.

What a player learns from days (the fixed plan) it learns from the training days; every figure is of the held-out ones.
All are played by the environment's own rules, so a plan that cannot be followed is clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agent_env import load_bundle
from agent_env.bundles.gridsim.battery import (
    CAPACITY,
    FIRST_CHARGE,
    LAST_CHARGE,
    LETTERS,
    drawn,
    export_price,
    run_plan,
)
from agent_env.bundles.gridsim.best import grade, least_cost_of
from agent_env.bundles.gridsim.day import HOURS, Day, draw_day

MOVE = {"C": 1, "H": 0, "D": -1}
Player = Callable[[Day], str]


def grades(seeds: Sequence[int], player: Player) -> NDArray[np.float64]:
    """The grade of a player's plan for each day."""
    days = [draw_day(seed) for seed in seeds]
    costs = [run_plan(day, player(day)).cost for day in days]
    return np.array([grade(*of) for of in zip(days, costs, map(least_cost_of, seeds), strict=True)])


def best_plan(day: Day, price: NDArray[np.float64]) -> str:
    """The cheapest 24 letters at `price`, by dynamic programming over the charge, from the last hour back."""
    net, export = day.load - day.solar, export_price(price)

    def cost(hour: int, letter: str) -> float:
        power = net[hour] + drawn(letter)[0]
        return float((price[hour] if power >= 0 else export[hour]) * power)

    rest: dict[int, tuple[float, str]] = dict.fromkeys(range(LAST_CHARGE, CAPACITY + 1), (0.0, ""))
    for hour in reversed(range(HOURS)):
        costs = {letter: cost(hour, letter) for letter in LETTERS}
        rest = {
            charge: min(
                (costs[letter] + rest[charge + MOVE[letter]][0], letter + rest[charge + MOVE[letter]][1])
                for letter in LETTERS
                if charge + MOVE[letter] in rest
            )
            for charge in range(CAPACITY + 1)
            if any(charge + MOVE[letter] in rest for letter in LETTERS)
        }
    return rest[FIRST_CHARGE][1]


def shown(day: Day) -> NDArray[np.float64]:
    """The prices as the forecast shows them, in EUR/MWh."""
    return np.round(day.price / 10) * 10


def cheap_and_dear(hours: int) -> Player:
    """Charges in that many of the cheapest hours, discharges in as many of the dearest."""

    def plan(day: Day) -> str:
        order = np.argsort(shown(day), kind="stable")
        letters = dict.fromkeys(order[:hours], "C") | dict.fromkeys(order[-hours:], "D")
        return "".join(letters.get(hour, "H") for hour in range(HOURS))

    return plan


def fixed_plan(seeds: Sequence[int]) -> str:
    """One plan for every day: letters are changed, one at a time, as long as the mean grade of `seeds` rises."""
    mean_day = _mean_day(seeds)
    plan, best, before = best_plan(mean_day, mean_day.price), 0.0, -1.0
    while best > before:
        before = best
        for hour in range(HOURS):
            for letter in LETTERS:
                changed = plan[:hour] + letter + plan[hour + 1 :]
                mean = float(grades(seeds, lambda day, plan=changed: plan).mean())  # type: ignore[misc]
                if mean > best:
                    plan, best = changed, mean
    return plan


def _mean_day(seeds: Sequence[int]) -> Day:
    """The day of the mean price, load and solar power."""
    days = [draw_day(seed) for seed in seeds]
    price, load, solar = (np.mean([getattr(d, name) for d in days], axis=0) for name in ("price", "load", "solar"))
    return Day(days[0].date, price, load, solar)


def redrawn(player: Player, share: float, rng: np.random.Generator) -> Player:
    """A player's plan with each letter drawn anew, at random, with a probability."""

    def plan(day: Day) -> str:
        return "".join(str(rng.choice(LETTERS)) if rng.random() < share else letter for letter in player(day))

    return plan


def main() -> None:
    bundle = load_bundle("gridsim")
    train, held_out = ([task.env["day"] for task in bundle.tasks(split)] for split in ("train", "eval"))
    rng = np.random.default_rng(0)

    def best(day: Day) -> str:
        return best_plan(day, day.price)

    fixed = fixed_plan(train)
    players: list[tuple[str, Player]] = [
        ("random letters", lambda day: "".join(rng.choice(LETTERS, HOURS))),
        (f"one plan for every day, `{fixed}`", lambda day: fixed),
        *((f"charge in the {k} cheapest hours, discharge in the {k} dearest", cheap_and_dear(k)) for k in range(2, 10)),
        ("best letters, by dynamic programming", best),
        ("the same on the prices as the forecast shows them", lambda day: best_plan(day, shown(day))),
        *(
            (f"best letters, each drawn anew with probability {share}", redrawn(best, share, rng))
            for share in (0.1, 0.2, 0.3, 0.4, 0.5)
        ),
    ]
    negative = np.mean([draw_day(seed).price.min() < 0 for seed in held_out])
    print(f"{len(held_out)} held-out days, {negative:.1%} of them with an hour of negative price\n")
    print("| player | mean grade | least | exactly 0 |\n|---|---|---|---|")
    for name, player in players:
        got = grades(held_out, player)
        print(f"| {name} | {got.mean():.3f} | {got.min():.3f} | {np.mean(got == 0):.1%} |", flush=True)


if __name__ == "__main__":
    main()
