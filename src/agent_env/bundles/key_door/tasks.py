"""Rooms of 6×6 cells, and of all sizes in turn; a task's seed is its room's."""

from __future__ import annotations

from agent_env import Task, Turn

from .grid import SIZES

_SEEDS = {
    "train": range(400),
    "eval": range(10_000, 10_200),
    "validation": range(11_000, 11_100),
    "train-mixed": range(20_000, 20_400),
    "eval-mixed": range(30_000, 30_200),
}
_SYSTEM_PROMPT = (
    "You walk in a grid, a cell an action: up, down, left, right. A is you, K the key, D the door, G the goal, # a "
    "wall. Walk over the key to take it; the door lets you through with the key only. Take as few steps as you can."
)


def tasks(split: str) -> list[Task]:
    """The rooms of a split, a task each."""
    return [_task(seed, SIZES[seed % len(SIZES)] if split.endswith("-mixed") else 6, split) for seed in _SEEDS[split]]


def _task(seed: int, size: int, split: str) -> Task:
    turn = Turn("goal", "Reach the goal.", {"type": "env"})
    env = {"size": size, "held_out": not split.startswith("train")}
    return Task(f"room-{seed}", (turn,), _SYSTEM_PROMPT, env, seed, f"room {seed}, {size}×{size}")
