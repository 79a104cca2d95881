"""A task a goal. Goals of ``train`` and ``eval`` have no product in common, nor a seed."""

from __future__ import annotations

import msgspec

from agent_env import Task, Turn

from .catalogue import catalogue
from .product import Goal

_FIRST_SEED = {"train": 0, "eval": 1_000_000}
_SYSTEM_PROMPT = (
    "You are a customer of a web shop. Find a product that fits the instruction in its attributes, its options and its "
    "price, choose the options that are asked for, and buy it. search[words] searches; click[item] clicks on what the "
    "page offers: a product by its id, an option by its value, a button. click[buy now] buys, and ends your visit."
)


def tasks(split: str) -> list[Task]:
    """The tasks of a split."""
    return [_task(split, number, goal) for number, goal in enumerate(catalogue().goals[split])]


def _task(split: str, number: int, goal: Goal) -> Task:
    turn = Turn("shop", goal.instruction, {"type": "env"})
    seed = _FIRST_SEED[split] + number
    return Task(f"{split}-{number}", (turn,), _SYSTEM_PROMPT, {"goal": msgspec.to_builtins(goal)}, seed)
