"""Problems of our own for ALFWorld's engine, from its domain, its goals, its rooms and its tables of what fits where.

A problem is made of a task type, a room and a seed alone: the same three give the same game. `problems.jsonl` holds
those that are played; each was solved by the plan of the engine's planner when it was chosen
(``scripts/make_alfworld_problems.py``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alfworld.gen.goal_library import gdict
from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

from .scenes import OPENABLE, Scene, able, fits, scene

TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""ALFWorld's six, in its own order."""
_STATION = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
"""What an object must be for it, and where it is done."""
_LAMP = "DeskLamp"
_UNDER_LAMPS = ("Desk", "SideTable", "Dresser", "DiningTable", "CoffeeTable", "Shelf")
MOST_KINDS = 12
_INSTANCES = (1, 1, 1, 2, 2, 3)


@dataclass(frozen=True)
class Goal:
    """What is to be done: with an object of a type, in a receptacle of a type (under a lamp, `receptacle` is "")."""

    type: str
    object: str
    receptacle: str


@dataclass(frozen=True)
class Item:
    """An object of the game: its type, its name with a place, and the index of the receptacle that it is in."""

    kind: str
    name: str
    where: int


@dataclass(frozen=True)
class Problem:
    """A room, where everything is in it, and what is to be done, in words too."""

    scene: Scene
    goal: Goal
    words: str
    items: tuple[Item, ...]

    def data(self) -> dict[str, Any]:
        """The game as the engine loads it: what a ``game.tw-pddl`` file of ALFWorld's holds."""
        grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8").replace("UNKNOWN GOAL", self.words)
        domain = Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")
        return {"pddl_domain": domain, "grammar": grammar, "pddl_problem": _pddl(self), "solvable": True}


def goals(type: str, room: Scene) -> list[Goal]:
    """Every goal of a task type that a room has room for, in order."""
    if type == "look_at_obj_in_light":
        under = room.lamp and any(kind in _UNDER_LAMPS for kind in room.kinds())
        return [Goal(type, kind, "") for kind in room.objects if _holders(room, kind)] if under else []
    ability, station = _STATION.get(type, ("", ""))
    if station and station not in room.kinds():
        return []
    objects = [kind for kind in room.objects if not ability or kind in able(ability)]
    found = []
    for receptacle in room.kinds():
        if receptacle != station:
            inside = set(fits(receptacle))
            found += [Goal(type, kind, receptacle) for kind in objects if kind in inside]
    # It must be possible to begin with the object elsewhere.
    return [goal for goal in found if _holders(room, goal.object, besides=goal.receptacle)]


def make_problem(type: str, number: int, seed: int) -> Problem:
    """The problem of a task type, a room's number and a seed.

    Raises:
        ValueError: the room has no goal of that type.
    """
    room, rng = scene(number), random.Random(f"{type} {number} {seed}")
    possible = goals(type, room)
    if not possible:
        raise ValueError(f"room {number} has nothing for a task of type {type!r}")
    goal = rng.choice(possible)
    items = _items(room, goal, rng)
    words = rng.choice(gdict[type]["templates"]).format(
        obj=goal.object.lower(), recep=goal.receptacle.lower(), toggle=_LAMP.lower()
    )
    return Problem(room, goal, words, tuple(items))


def _holders(room: Scene, kind: str, besides: str = "") -> list[int]:
    """The receptacles of a room that can hold an object of a type, but for those of the type `besides`."""
    return [
        index
        for index, (receptacle, _) in enumerate(room.receptacles)
        if receptacle != besides and kind in fits(receptacle)
    ]


def _items(room: Scene, goal: Goal, rng: random.Random) -> list[Item]:
    others = [kind for kind in room.objects if kind != goal.object]
    kinds = sorted({goal.object, *rng.sample(others, min(len(others), MOST_KINDS - 1))})
    items = []
    for kind in kinds:
        wanted = kind == goal.object
        count = rng.choice(_INSTANCES)
        if wanted and goal.type == "pick_two_obj_and_place":
            count = max(count, 2)
        places = _holders(room, kind, besides=goal.receptacle if wanted else "")
        items += [Item(kind, _name(kind, rng), rng.choice(places)) for _ in range(count if places else 0)]
    if room.lamp:
        under = [index for index, (kind, _) in enumerate(room.receptacles) if kind in _UNDER_LAMPS]
        if under:
            items.append(Item(_LAMP, _name(_LAMP, rng), rng.choice(under)))
    return items


def _name(kind: str, rng: random.Random) -> str:
    return "|".join([kind, *(f"{rng.uniform(-4, 4):+06.2f}" for _ in range(3))])


def _mangled(name: str) -> str:
    """A name with a place as ALFWorld writes it in PDDL, where it may hold letters and underscores alone."""
    for sign, word in (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_")):
        name = name.replace(sign, word)
    return name


def _pddl(problem: Problem) -> str:
    room, goal = problem.scene, problem.goal
    receptacles = [(kind, _mangled(name)) for kind, name in room.receptacles]
    items = [(item.kind, _mangled(item.name), item.where) for item in problem.items]
    places = [f"loc_bar_{index}" for index in range(len(receptacles))]
    kinds, types = room.kinds(), sorted({kind for kind, _, _ in items})
    facts = ["(= (total-cost) 0)", "(atLocation agent1 loc_bar_start)"]
    for (kind, name), place in zip(receptacles, places, strict=True):
        facts += [f"(receptacleType {name} {kind}Type)", f"(receptacleAtLocation {name} {place})"]
        facts += [f"(openable {name})"] if kind in OPENABLE else []
    for receptacle in kinds:
        inside = set(fits(receptacle))
        facts += [f"(canContain {receptacle}Type {kind}Type)" for kind in types if kind in inside]
    for kind, name, where in items:
        facts += [f"(objectType {name} {kind}Type)", f"(objectAtLocation {name} {places[where]})"]
        facts.append(f"(inReceptacle {name} {receptacles[where][1]})")
        facts += [f"(pickupable {name})"] if kind != _LAMP else []
        facts += [f"({what.lower()} {name})" for what in sorted(_ABILITIES) if kind in able(what)]
    declared = (
        (["agent1"], "agent"),
        ([name for _, name, _ in items], "object"),
        ([f"{kind}Type" for kind in types], "otype"),
        ([name for _, name in receptacles], "receptacle"),
        ([f"{kind}Type" for kind in kinds], "rtype"),
        ([*places, "loc_bar_start"], "location"),
    )
    objects = "\n".join(f"    {name} - {kind}" for names, kind in declared for name in names)
    written = gdict[goal.type]["pddl"].format(obj=goal.object, recep=goal.receptacle, toggle=_LAMP)
    # ALFWorld's goals have # for -, and close the definition of the problem.
    ending = written.replace("#", "-").strip()
    init = "\n".join(f"    {fact}" for fact in facts)
    return f"(define (problem own)\n(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n{init}\n)\n{ending}\n"


_ABILITIES = ("Heatable", "Coolable", "Cleanable", "Sliceable", "Toggleable")
