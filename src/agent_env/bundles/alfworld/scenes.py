"""ALFWorld's rooms: what is in each of the 120 floor plans, and what fits where, by the tables in its wheel.

The tables give receptacles that can be opened or stood before with their places, and types alone of all else; what has
no place there gets one that is made up, which nothing in a game depends on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import alfworld
from alfworld.gen import constants

MOST_OF_A_KIND = 4
"""Cabinets, drawers and shelves of one room at most; some rooms have twenty, and the engine takes its time."""
_BASINS = {"Sink": "SinkBasin", "Bathtub": "BathtubBasin"}
_MOVABLE = set(constants.MOVABLE_RECEPTACLES)
_SEVERAL = {"StoveBurner": 4}
OPENABLE = frozenset(constants.OPENABLE_CLASS_LIST)
SLICED = "Sliced"


@dataclass(frozen=True)
class Scene:
    """A room. `receptacles` are pairs of a type and a name with its place; `objects` are types that can be carried."""

    number: int
    receptacles: tuple[tuple[str, str], ...]
    objects: tuple[str, ...]
    lamp: bool

    def kinds(self) -> list[str]:
        """The types of its receptacles, in order, each once."""
        return sorted({kind for kind, _ in self.receptacles})


def fits(receptacle: str) -> list[str]:
    """The types of objects that a type of receptacle can hold."""
    return sorted(kind for kind in constants.VAL_RECEPTACLE_OBJECTS[receptacle] if not kind.endswith(SLICED))


def able(what: str) -> frozenset[str]:
    """The types of objects that are ``Heatable``, ``Coolable``, ``Cleanable``, ``Sliceable`` or ``Toggleable``."""
    return frozenset(constants.VAL_ACTION_OBJECTS[what])


def scene_numbers(*, unseen: bool) -> list[int]:
    """The rooms of ALFRED's training, or those that it holds out."""
    return sorted(constants.TEST_SCENE_NUMBERS if unseen else constants.TRAIN_SCENE_NUMBERS)


@cache
def scene(number: int) -> Scene:
    """The room of a floor plan's number."""
    layouts = Path(alfworld.__file__).parent / "gen" / "layouts"
    types = json.loads((layouts / f"FloorPlan{number}-objects.json").read_text(encoding="utf-8"))
    placed = json.loads((layouts / f"FloorPlan{number}-openable.json").read_text(encoding="utf-8"))
    carried = set().union(*constants.VAL_RECEPTACLE_OBJECTS.values())
    objects = tuple(sorted(kind for kind in types if kind in carried))
    return Scene(number, tuple(_receptacles(types, sorted(placed))), objects, "DeskLamp" in types)


def _receptacles(types: list[str], placed: list[str]) -> Iterator[tuple[str, str]]:
    """Those with a place first, then those of which the table knows the type alone."""
    fixed = set(constants.VAL_RECEPTACLE_OBJECTS) - _MOVABLE
    count: dict[str, int] = {}
    for name in placed:
        kind, _, place = name.partition("|")
        basin = _BASINS.get(kind)
        kind = basin or kind
        if kind in fixed and count.get(kind, 0) < MOST_OF_A_KIND:
            count[kind] = count.get(kind, 0) + 1
            yield kind, f"{name}|{basin}" if basin and not place.endswith(basin) else name
    for kind in sorted(set(types) & fixed - set(count)):
        for number in range(1, _SEVERAL.get(kind, 1) + 1):
            whole = next((whole for whole, basin in _BASINS.items() if basin == kind), None)
            name = f"{whole or kind}|+{number:05.2f}|+00.00|+00.00"
            yield kind, f"{name}|{kind}" if whole else name
