"""20 questions of each generator to train on, and 5 to evaluate on; a task's seed is its question's."""

from __future__ import annotations

from agent_env import Task, Turn

from .generators import names

_COUNT = {"train": 20, "eval": 5}
_FIRST = {"train": 0, "eval": 1_000_000}
_SYSTEM_PROMPT = (
    "You answer questions. Think first if you like, then write the answer alone between <answer> and </answer>, in the "
    "form that the question asks for."
)


def tasks(split: str) -> list[Task]:
    """The questions of a split, the generators in turn."""
    every, count = names(), _COUNT[split]
    return [
        _task(name, split, seed)
        for seed, name in enumerate([name for _ in range(count) for name in every], _FIRST[split])
    ]


def _task(name: str, split: str, seed: int) -> Task:
    turn = Turn("answer", "Answer this question.", {"type": "env"})
    return Task(f"{name}-{seed}", (turn,), _SYSTEM_PROMPT, {"generator": name, "held_out": split == "eval"}, seed)
