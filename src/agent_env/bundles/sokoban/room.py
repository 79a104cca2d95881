"""What a room is, what a move does in it, and both as text.

Cells are numbered row by row. A room has a rim of wall, so a move cannot leave it and needs no check for that.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

MOVES = ("up", "down", "left", "right")
ACTIONS = (*MOVES, "still")
_SIGNS = {"#": "wall", ".": "floor", "O": "target", "X": "box", "V": "box target", "P": "player", "S": "player target"}


@dataclass(frozen=True)
class Room:
    """What does not change in an episode. `size` counts the rim; `floor` is every cell that is no wall."""

    size: int
    floor: frozenset[int]
    targets: frozenset[int]

    def deltas(self) -> dict[str, int]:
        """By how much each move changes a cell's number."""
        return {"up": -self.size, "down": self.size, "left": -1, "right": 1}


class State(NamedTuple):
    """Where the player and the boxes are."""

    player: int
    boxes: frozenset[int]


def move(room: Room, state: State, delta: int) -> State:
    """The state after the player's move; the same one if a wall, or a box that cannot be pushed, is in the way."""
    cell = state.player + delta
    if cell not in room.floor:
        return state
    if cell not in state.boxes:
        return State(cell, state.boxes)
    beyond = cell + delta
    if beyond not in room.floor or beyond in state.boxes:
        return state
    return State(cell, state.boxes - {cell} | {beyond})


def reachable(room: Room, player: int, boxes: Set[int]) -> dict[int, int]:
    """Every cell that the player can walk to without a push, with the cell before it on a shortest walk."""
    floor, deltas = room.floor, (-room.size, room.size, -1, 1)
    before = {player: player}
    queue = [player]
    for cell in queue:  # grows while it is walked through: breadth first
        for delta in deltas:
            following = cell + delta
            if following in floor and following not in boxes and following not in before:
                before[following] = cell
                queue.append(following)
    return before


def walk(room: Room, before: dict[int, int], cell: int) -> list[str]:
    """The moves to `cell` by what `reachable` gave."""
    names = {delta: name for name, delta in room.deltas().items()}
    moves: list[str] = []
    while before[cell] != cell:
        moves.append(names[cell - before[cell]])
        cell = before[cell]
    return moves[::-1]


def draw(room: Room, state: State) -> str:
    """A line a row, a sign a cell."""
    signs = ["#"] * room.size**2
    for cell in room.floor:
        signs[cell] = "."
    for cell in room.targets:
        signs[cell] = "O"
    for cell in state.boxes:
        signs[cell] = "V" if cell in room.targets else "X"
    signs[state.player] = "S" if state.player in room.targets else "P"
    return "\n".join([" ".join(signs[start : start + room.size]) for start in range(0, len(signs), room.size)])


def read(text: str) -> tuple[Room, State]:
    """The room and the state that `draw` wrote; lines that are no row are left out."""
    rows = [row for line in text.splitlines() if (row := line.split(" ")) and all(sign in _SIGNS for sign in row)]
    signs = [sign for row in rows for sign in row]

    def cells(what: str) -> frozenset[int]:
        return frozenset(cell for cell, sign in enumerate(signs) if what in _SIGNS[sign])

    (player,) = cells("player")
    room = Room(len(rows), frozenset(range(len(signs))) - cells("wall"), cells("target"))
    return room, State(player, cells("box"))
