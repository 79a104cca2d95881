"""The environment: a forecast to read, a plan to submit, and the plan's grade."""

from __future__ import annotations

import re

from agent_env import Environment, Task, ToolError, tool

from .battery import LETTERS, Outcome, run_plan
from .best import grade, least_cost_of
from .day import HOURS, Hourly, draw_day


class GridSim(Environment):
    """The day of seed ``task.env["day"]``. The episode's own seed changes nothing: what a plan costs is certain."""

    def reset(self, task: Task, seed: int) -> None:
        self.seed: int = task.env["day"]
        self.day = draw_day(self.seed)
        self.outcome: Outcome | None = None

    @tool
    def forecast(self) -> str:
        """The price, load and solar power of each hour of the day, from midnight on."""
        return "\n".join(
            (
                f"price (ct/kWh): {_row(self.day.price / 10)}",
                f"load (100 kW): {_row(self.day.load * 10)}",
                f"solar (100 kW): {_row(self.day.solar * 10)}",
            )
        )

    @tool
    def submit_schedule(self, plan: str) -> str:
        """Set what the battery does in each hour; a later plan replaces an earlier one.

        Answers with the day's cost and the hours that were clipped: the letter that ran instead, and why (the battery
        was full or empty, or needed the charge that is due at midnight).

        Args:
            plan: 24 letters, one an hour from midnight on: C charges, H holds, D discharges.
        """
        _check(plan)
        self.outcome = run_plan(self.day, plan)
        clips = ", ".join(f"{clip.hour} {clip.ran} {clip.reason}" for clip in self.outcome.clips)
        return f"cost: {self.outcome.cost:.0f} EUR\nclipped: {clips or 'nothing'}"

    def score(self, reply: str) -> float:
        """The grade of the plan that stands, 0..1; 0 without a plan, or if the reply does not end with ``done``."""
        if self.outcome is None or re.search(r"\bdone\W*\Z", reply, re.IGNORECASE) is None:
            return 0.0
        return grade(self.day, self.outcome.cost, least_cost_of(self.seed))


def _row(values: Hourly) -> str:
    return " ".join(f"{value:.0f}" for value in values.round() + 0.0)


def _check(plan: str) -> None:
    """Raises ToolError, with everything that is wrong with a plan."""
    wrong = []
    if len(plan) != HOURS:
        wrong.append(f"it has {len(plan)} letters, {HOURS} are due")
    if strange := sorted(set(plan) - set(LETTERS)):
        wrong.append(f"only {', '.join(LETTERS)} are letters of a plan, not {', '.join(map(repr, strange))}")
    if wrong:
        raise ToolError(f"plan: {'; '.join(wrong)}. The earlier plan, if there is one, stands.")
