"""The official games of ALFWorld, found once and kept as an index: 3,827 files are too many to open at each start.

A game is a folder with ``game.tw-pddl`` and ``traj_data.json``; those count that ALFWorld's own environment takes: one
of its six task types, known to be solvable, nothing sliced and no movable receptacle.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agent_env.cache import kept

logger = logging.getLogger(__name__)

INSIDE = "json_2.1.1"
GAME, ABOUT = "game.tw-pddl", "traj_data.json"
FOLDERS = {"train": "train", "eval": "valid_seen", "eval-unseen": "valid_unseen"}
_LEFT_OUT = ("movable", "Sliced")
_EVERY = 500


class Official(NamedTuple):
    """A game: its folder below `INSIDE`, its task type, and its goal in words."""

    game: str
    type: str
    goal: str


def official_games(folder: Path, split: str, types: tuple[str, ...]) -> list[Official]:
    """The games of a split in the order of their folders, from the index of ALFWorld's data in `folder`.

    The index is made again when one of the splits' folders has changed.
    """
    top = folder.resolve() / INSIDE
    stamps = [(name, _changed(top / name)) for name in FOLDERS.values()]
    digest = hashlib.sha256(json.dumps([str(top), stamps, types]).encode()).hexdigest()[:16]
    index = kept(f"alfworld/games-{digest}.json", lambda file: _write_index(file, top, types))
    found = json.loads(index.read_text(encoding="utf-8"))
    return [Official(*game) for game in found[FOLDERS[split]]]


def _changed(folder: Path) -> int:
    return folder.stat().st_mtime_ns if folder.is_dir() else 0


def _write_index(file: Path, top: Path, types: tuple[str, ...]) -> None:
    found = {name: list(_games(top, name, types)) for name in FOLDERS.values()}
    file.write_text(json.dumps(found), encoding="utf-8")
    logger.warning("indexed ALFWorld's games: %s", ", ".join(f"{len(games)} {name}" for name, games in found.items()))


def _games(top: Path, name: str, types: tuple[str, ...]) -> Iterator[Official]:
    folders = sorted(about.parent for about in (top / name).rglob(ABOUT))
    for number, folder in enumerate(folders):
        if number % _EVERY == 0:
            logger.warning("indexing ALFWorld's games in %s: %d of %d", name, number, len(folders))
        if any(word in str(folder.relative_to(top)) for word in _LEFT_OUT) or not (folder / GAME).is_file():
            continue
        kind = _json(folder / ABOUT)["task_type"]
        game = _json(folder / GAME)
        goal = re.search(r"Your task is to: (.*?)\.?\"", game.get("grammar", ""))
        if kind in types and game.get("solvable") and goal is not None:
            yield Official(str(folder.relative_to(top)), kind, goal[1])


def _json(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data
