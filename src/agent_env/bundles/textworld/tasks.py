"""The tasks of `games.jsonl`: kinds in turn, each kind's levels in turn."""

from __future__ import annotations

import json
from pathlib import Path

from agent_env import Task, Turn

HERE = Path(__file__).parent
PROMPT = (
    "You are in a text adventure, and act in it by commands in words, one at a time. What you can do where you are is "
    "named to you as your actions."
)


def tasks(split: str) -> list[Task]:
    """The tasks of ``train`` or ``eval``, which share no seed."""
    rows = map(json.loads, (HERE / "games.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        Task(
            f"{row['kind']}-{row['level']}-{row['seed']}",
            (Turn(row["kind"], row["goal"], {"type": "env"}),),
            PROMPT,
            {"kind": row["kind"], "level": row["level"], "seed": row["seed"]},
        )
        for row in rows
        if row["split"] == split
    ]
