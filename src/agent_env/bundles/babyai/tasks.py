"""400 worlds of a level to train on and 200 to evaluate on; a task's seed is its world's."""

from __future__ import annotations

from agent_env import Task, Turn

from .env import ACTIONS
from .levels import LEVELS

_COUNT = {"train": 400, "eval": 200}
_FIRST = {"train": 0, "eval": 50_000}
_SYSTEM_PROMPT = (
    "You are in a grid of rooms and have a mission. You see what lies before you, up to six cells ahead and three to "
    f"each side, and where it is from you. You do one action at a time: {', '.join(ACTIONS)}. You pick up and toggle "
    "(open and close) what is in the cell right before you, and drop into it what you carry. You carry one thing at a "
    "time; a locked door opens to who carries the key of its colour."
)


def tasks(split: str) -> list[Task]:
    """The worlds of a split, a task each."""
    kind, _, level = split.partition("-")
    level = level or next(iter(LEVELS))
    first = 100_000 * [*LEVELS].index(level) + _FIRST[kind]
    return [_task(level, seed, held_out=kind == "eval") for seed in range(first, first + _COUNT[kind])]


def _task(level: str, seed: int, *, held_out: bool) -> Task:
    turn = Turn("mission", "Do what the mission says.", {"type": "env"})
    return Task(f"{level}-{seed}", (turn,), _SYSTEM_PROMPT, {"level": level, "held_out": held_out}, seed)
