"""Rooms of 6×6 cells with one box, as text or as pictures, and of all sizes with one to four boxes, as text.

A task's seed is its room's; the rooms in pictures are those in text.
"""

from __future__ import annotations

from agent_env import Task, Turn

from .making import BOXES, SIZES

_SEEDS = {
    "train": range(400),
    "eval": range(10_000, 10_200),
    "train-mixed": range(20_000, 20_400),
    "eval-mixed": range(30_000, 30_200),
    "train-pictures": range(400),
    "eval-pictures": range(10_000, 10_200),
}
_KINDS = [(size, boxes) for size in SIZES for boxes in BOXES]
_SIGNS = "# is a wall, . floor, O a target, X a box, V a box on a target, P you, S you on a target. "
_TILES = (
    "The picture shows the grid: bricks are walls, a red diamond is a target, a brown crate a box, a green crate a box "
    "on a target; you are the figure, in blue, and in red when you stand on a target. "
)
_SYSTEM_PROMPT = (
    "You push boxes onto targets in a grid, a cell an action: up, down, left, right or still. {signs}You push a box by "
    "walking into it, one at a time, and cannot pull. Put every box on a target in as few steps as you can."
)


def tasks(split: str) -> list[Task]:
    """The rooms of a split, a task each."""
    mixed = split.endswith("-mixed")
    return [_task(seed, *(_KINDS[seed % len(_KINDS)] if mixed else (6, 1)), split) for seed in _SEEDS[split]]


def _task(seed: int, size: int, boxes: int, split: str) -> Task:
    turn = Turn("solve", "Solve the room.", {"type": "env"})
    env = {"size": size, "boxes": boxes, "held_out": split.startswith("eval")}
    name = f"room {seed}, {size}×{size}, {boxes} box{'es' * (boxes > 1)}"
    if split.endswith("-pictures"):
        prompt = _SYSTEM_PROMPT.format(signs=_TILES)
        return Task(f"room-{seed}-pictures", (turn,), prompt, {**env, "pictures": True}, seed, f"{name}, as a picture")
    return Task(f"room-{seed}", (turn,), _SYSTEM_PROMPT.format(signs=_SIGNS), env, seed, name)
