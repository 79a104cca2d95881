"""400 days to train on and 200 to evaluate on, by the seeds they are drawn from."""

from __future__ import annotations

from agent_env import Task, Turn

from .day import draw_day

_DAYS = {"train": range(400), "eval": range(10_000, 10_200)}
_SYSTEM_PROMPT = (
    "You run the battery of a small grid for one day, as cheaply as you can. It holds 4 MWh, moves 1 MWh an hour, "
    "loses a tenth of what it stores, starts with 2 MWh and must end with 2 MWh. Read the forecast, submit a plan, "
    "then reply with the word done."
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def tasks(split: str) -> list[Task]:
    """The days of a split, a task each."""
    return [_task(seed) for seed in _DAYS[split]]


def _task(seed: int) -> Task:
    date = draw_day(seed).date
    prompt = f"Plan {_WEEKDAYS[date.weekday()]}, {date.day} {_MONTHS[date.month - 1]}."
    turn = Turn("grade", prompt, {"type": "env"})
    return Task(f"day-{seed}", (turn,), _SYSTEM_PROMPT, {"day": seed}, name=f"{date} (day {seed})")
