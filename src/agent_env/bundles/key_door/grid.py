"""Rooms by seed, how one walks in them, the shortest way through, and all of it as text.

A room is a square of cells without a rim. A wall with a door in it cuts the room in two; the goal is on one side, the
player and the key on the other.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Cell: TypeAlias = tuple[int, int]
"""Row and column, from 0 at the top left."""

SIZES = range(5, 9)
MOVES: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@dataclass(frozen=True)
class Room:
    """What does not change in an episode. `key` is None for a room whose key was taken before it was read."""

    size: int
    walls: frozenset[Cell]
    door: Cell
    key: Cell | None
    goal: Cell


class Place(NamedTuple):
    """Where the player is, and whether with the key."""

    cell: Cell
    has_key: bool


def make_room(size: int, seed: int, *, held_out: bool) -> tuple[Room, Place]:
    """The room of a seed and where the player starts; the way to the goal takes `size` moves or more.

    One room in five, chosen by a checksum of its text, is held out: it is made for ``held_out=True`` alone, so that no
    seed of a training task gives a room that is evaluated on.

    Raises:
        ValueError: there are no rooms of this size.
    """
    if size not in SIZES:
        raise ValueError(f"size: expected {SIZES[0]}..{SIZES[-1]}, got {size!r}")
    rng = random.Random(seed)
    while True:
        room, start = _drawn(rng, size)
        if (zlib.crc32(draw(room, start).encode()) % 5 == 0) == held_out and len(shortest(room, start)) >= size:
            return room, start


def _drawn(rng: random.Random, size: int) -> tuple[Room, Place]:
    line, gap, upright, near_first = rng.randrange(1, size - 1), rng.randrange(size), rng.randrange(2), rng.randrange(2)
    wall = [(i, line) if upright else (line, i) for i in range(size)]
    door = wall.pop(gap)
    cells = [(row, column) for row in range(size) for column in range(size)]
    first = [cell for cell in cells if cell[upright] < line]
    second = [cell for cell in cells if cell[upright] > line]
    near, far = (first, second) if near_first else (second, first)
    start, key = rng.sample(near, 2)
    return Room(size, frozenset(wall), door, key, rng.choice(far)), Place(start, False)


def move(room: Room, place: Place, action: str) -> Place:
    """The place after an action; the same one if a wall, the room's edge or the locked door is in the way."""
    down, right = MOVES[action]
    cell = (place.cell[0] + down, place.cell[1] + right)
    outside = not (0 <= cell[0] < room.size and 0 <= cell[1] < room.size)
    if outside or cell in room.walls or (cell == room.door and not place.has_key):
        return place
    return Place(cell, place.has_key or cell == room.key)


def shortest(room: Room, start: Place) -> tuple[str, ...]:
    """The fewest actions to the goal, by breadth-first search; of several such ways always the same one.

    Raises:
        ValueError: no way leads to the goal.
    """
    ways: dict[Place, tuple[str, ...]] = {start: ()}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place.cell == room.goal:
            return ways[place]
        for action in MOVES:
            following = move(room, place, action)
            if following not in ways:
                ways[following] = (*ways[place], action)
                queue.append(following)
    raise ValueError("no way leads to the goal")


def draw(room: Room, place: Place) -> str:
    """A line a row, a letter a cell, and a line that says whether the key is had."""
    signs = dict.fromkeys(room.walls, "#") | {room.door: "D", room.goal: "G"}
    if room.key is not None and not place.has_key:
        signs[room.key] = "K"
    signs[place.cell] = "A"
    rows = (" ".join(signs.get((row, column), ".") for column in range(room.size)) for row in range(room.size))
    return "\n".join((*rows, f"key: {'yes' if place.has_key else 'no'}"))


def read(text: str) -> tuple[Room, Place]:
    """The room and the place that `draw` wrote, as far as they show. Raises ValueError for a place at the goal."""
    rows = [line.split(" ") for line in text.splitlines() if ":" not in line]
    found: dict[str, list[Cell]] = {}
    for row, signs in enumerate(rows):
        for column, sign in enumerate(signs):
            found.setdefault(sign, []).append((row, column))
    if "G" not in found:
        raise ValueError("the goal does not show")
    (cell,), (goal,) = found["A"], found["G"]
    (door,) = found.get("D", [cell])  # a player in the door hides it
    (key,) = found.get("K", [None])
    return Room(len(rows), frozenset(found["#"]), door, key, goal), Place(cell, "key: yes" in text)
