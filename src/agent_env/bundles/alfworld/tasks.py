"""The tasks: ALFWorld's own where its data is, else the problems of `problems.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_env import Task, Turn
from agent_env.install.needs import official_data

from .making import TYPES
from .official import official_games

HERE = Path(__file__).parent
PROMPT = (
    "You are in a household, and act in it by commands in words, one at a time. What you can do where you stand is "
    "named to you as your actions; anything else does nothing. Things are in receptacles, some of which must be opened."
)


def tasks(split: str) -> list[Task]:
    """The tasks of ``train``, ``eval`` (rooms that train has) or ``eval-unseen`` (rooms that it does not have)."""
    folder = official_data(HERE)
    if folder is not None:
        games = official_games(folder, split, TYPES)
        return [_task(game.game, game.type, game.goal, {"game": game.game}) for game in games]
    return [
        _task(f"{row['type']}-{row['scene']}-{row['seed']}", row["type"], row["goal"], _own(row))
        for row in problems(split)
    ]


def problems(split: str) -> list[dict[str, Any]]:
    """Our own problems of a split, in order: ``type``, ``scene``, ``seed``, ``goal``, and ``plan``, its length."""
    rows = map(json.loads, (HERE / "problems.jsonl").read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["split"] == split]


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": row["type"], "scene": row["scene"], "seed": row["seed"]}


def _task(name: str, kind: str, goal: str, env: dict[str, Any]) -> Task:
    return Task(name, (Turn(kind, f"Your task is to: {goal}.", {"type": "env"}),), PROMPT, env)
