"""Games by kind, level and seed, compiled once with the Inform compiler in TextWorld's wheel and kept in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import textworld
from textworld.challenges import coin_collector, treasure_hunter
from textworld.generator import compile_game, make_game

from agent_env.cache import kept

QUESTS = {1: (3, 8, 3), 2: (5, 12, 5), 3: (8, 16, 7)}
"""Of each level of ``quest``: rooms, objects, and the commands that its quest takes."""
LEVELS = {"coin": (3, 6, 105, 110), "treasure": (5, 10, 13, 17), "quest": (1, 2, 3)}
"""The levels that are played of each kind; of ``coin`` and ``treasure``, TextWorld's challenges, they are its own."""


def generate(kind: str, level: int, seed: int) -> Any:
    """The game as TextWorld's own object. Its objective says what to do last, not the way there.

    Raises:
        ValueError: there is no such kind or level.
    """
    options = textworld.GameOptions()
    options.seeds = seed
    options.grammar.only_last_action = True
    if kind == "coin":
        return coin_collector.make({"level": level}, options)
    if kind == "treasure":
        return treasure_hunter.make({"level": level}, options)
    if kind != "quest" or level not in QUESTS:
        raise ValueError(f"expected a coin, a treasure or a quest of level 1, 2 or 3, got {kind!r} {level!r}")
    options.nb_rooms, options.nb_objects, options.quest_length = QUESTS[level]
    return make_game(options)


def compiled(kind: str, level: int, seed: int) -> Path:
    """The file of a game (``.z8``, with what TextWorld knows of it beside), made if it is not in the cache."""

    def make(folder: Path) -> None:
        folder.mkdir()
        options = textworld.GameOptions()
        options.path = str(folder / "game.z8")
        compile_game(generate(kind, level, seed), options)

    return kept(f"textworld-{textworld.__version__}/{kind}-{level}-{seed}", make) / "game.z8"
