"""From a task's ``env`` to the game that the engine loads: one of our own problems, or an official file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_env.install.needs import official_data

from .making import make_problem
from .official import GAME, INSIDE


def game_data(instance: Mapping[str, Any]) -> dict[str, Any]:
    """The game of a task's ``env``: ``{"type", "scene", "seed"}``, or ``{"game"}`` for an official one.

    Raises:
        FileNotFoundError: the official game is not there (any more).
    """
    if "game" not in instance:
        return make_problem(instance["type"], instance["scene"], instance["seed"]).data()
    folder = official_data(Path(__file__).parent)
    if folder is None:
        raise FileNotFoundError(f"ALFWORLD_DATA no longer has the official games, {instance['game']} among them")
    text = (folder / INSIDE / instance["game"] / GAME).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
