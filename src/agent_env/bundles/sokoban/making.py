"""Rooms by seed, made by playing backwards: from the solved room, the player pulls boxes off their targets.

Each pull undone is a push, so the pulls in reverse, with the walks between them, are a solution. The solver looks for a
shorter one, so that its length says how hard the room is.
"""

from __future__ import annotations

import random
import zlib
from functools import lru_cache
from typing import NamedTuple

from .room import Room, State, reachable, walk
from .solver import solve

SIZES, BOXES = range(5, 11), range(1, 5)
_TRIES = 8
_PULLS_PER_BOX = 8
_SAME_BOX = 0.7  # how often the box that was pulled last is pulled on, if it can be


class Puzzle(NamedTuple):
    """A room, its start, and the moves of a solution: the shorter of the pulls in reverse and the solver's."""

    room: Room
    start: State
    solution: tuple[str, ...]


class _Pulled(NamedTuple):
    """After a pull: where the player stands, and the boxes, each at its place in the list."""

    player: int
    boxes: tuple[int, ...]


@lru_cache(maxsize=4096)  # the sessions of a group start in one room
def make_puzzle(size: int, boxes: int, seed: int, *, held_out: bool) -> Puzzle:
    """The puzzle of a seed; its solution has `size` moves or more.

    One floor plan in five, chosen by a checksum of it and its targets, is held out: it is made for ``held_out=True``
    alone, so that no seed of a training task gives a room that is evaluated on.

    Raises:
        ValueError: there are no rooms of this size or with so many boxes.
    """
    wrong = [
        f"{name}: expected {allowed[0]}..{allowed[-1]}, got {value!r}"
        for name, value, allowed in (("size", size, SIZES), ("boxes", boxes, BOXES))
        if value not in allowed
    ]
    if wrong:
        raise ValueError("; ".join(wrong))
    rng = random.Random(seed)
    while True:
        room = _plan(rng, size, boxes)
        if (zlib.crc32(repr((size, sorted(room.floor), sorted(room.targets))).encode()) % 5 == 0) == held_out:
            path = max((_played_backwards(rng, room) for _ in range(_TRIES)), key=lambda path: _worth(room, path))
            puzzle = _puzzle(rng, room, path)
            if len(puzzle.solution) >= size and puzzle.start.boxes != room.targets:
                return puzzle


def _plan(rng: random.Random, size: int, boxes: int) -> Room:
    """A connected floor, carved by a walk that turns now and then, with targets on it."""
    inside = (size - 2) ** 2
    wanted = max(int(inside * rng.uniform(0.6, 1.0)), 2 * boxes + 1, 6)
    row, column = rng.randint(1, size - 2), rng.randint(1, size - 2)
    down, right = 0, 1
    floor = {row * size + column}
    while len(floor) < wanted:
        if rng.random() < 0.35:
            down, right = rng.choice(((-1, 0), (1, 0), (0, -1), (0, 1)))
        row, column = min(max(row + down, 1), size - 2), min(max(column + right, 1), size - 2)
        floor.add(row * size + column)
    return Room(size, frozenset(floor), frozenset(rng.sample(sorted(floor), boxes)))


def _played_backwards(rng: random.Random, room: Room) -> list[_Pulled]:
    """The states after each pull of a random play, the solved one first, without the ways round to the same state."""
    boxes = tuple(sorted(room.targets))
    path = [_Pulled(rng.choice(sorted(room.floor - room.targets)), boxes)]
    last = -1
    for _ in range(_PULLS_PER_BOX * len(boxes)):
        pulls = _pulls(room, path[-1])
        same = [pull for pull in pulls if pull[0] == last]
        if not pulls:
            break
        last, pulled = rng.choice(same if same and rng.random() < _SAME_BOX else pulls)
        if pulled in path:
            del path[path.index(pulled) :]
        path.append(pulled)
    return path


def _pulls(room: Room, state: _Pulled) -> list[tuple[int, _Pulled]]:
    """Every pull, each with the number of its box."""
    taken = frozenset(state.boxes)
    near = reachable(room, state.player, taken)
    found = []
    for number, box in enumerate(state.boxes):
        for delta in room.deltas().values():
            stand, back = box + delta, box + 2 * delta
            if stand in near and back in room.floor and back not in taken:
                boxes = (*state.boxes[:number], stand, *state.boxes[number + 1 :])
                found.append((number, _Pulled(back, boxes)))
    return found


def _worth(room: Room, path: list[_Pulled]) -> tuple[int, int, int]:
    """Most boxes off the targets first, then the longest ways back to them, then the fewest pulls."""
    off = sum(box not in room.targets for box in path[-1].boxes)
    ways = sum(
        abs(box // room.size - home // room.size) + abs(box % room.size - home % room.size)
        for box, home in zip(path[-1].boxes, path[0].boxes, strict=True)
    )
    return off, ways, -len(path)


def _puzzle(rng: random.Random, room: Room, path: list[_Pulled]) -> Puzzle:
    """The room at the end of `path`, the player anywhere near, and the pulls in reverse."""
    boxes = frozenset(path[-1].boxes)
    start = player = rng.choice(sorted(reachable(room, path[-1].player, boxes)))
    names = {delta: name for name, delta in room.deltas().items()}
    solution: list[str] = []
    for after, before in zip(path[:0:-1], path[-2::-1], strict=True):
        solution += walk(room, reachable(room, player, frozenset(after.boxes)), after.player)
        (pulled,) = (now for now, then in zip(after.boxes, before.boxes, strict=True) if now != then)
        solution.append(names[pulled - after.player])
        player = pulled
    found = solve(room, State(start, boxes))
    shorter = tuple(solution) if found is None else min(tuple(solution), found, key=len)
    return Puzzle(room, State(start, boxes), shorter)
