"""A room as a picture, a tile of 16×16 pixels a cell: 96×96 for a room of six cells.

Walls are bricks, targets red diamonds, boxes brown crates, which are green on a target; the player is dressed in blue,
and in red on a target.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from agent_env.extras import imported

from .room import Room, State

TILE = 16

_COLOURS = {
    ".": (36, 32, 44),  # floor
    " ": (28, 25, 35),  # the joints between its slabs
    "#": (150, 84, 56),  # brick
    "+": (92, 50, 38),  # mortar
    "r": (226, 60, 60),
    "b": (206, 150, 78),  # a crate's boards
    "d": (120, 78, 34),  # and its frame
    "g": (92, 182, 92),
    "e": (34, 102, 52),
    "p": (74, 140, 232),  # the player's clothes
    "s": (244, 206, 166),  # and skin
    "k": (20, 20, 28),
}
_FLOOR = ["............... "] * 15 + [" " * 16]
_WALL = [
    *["#######+########"] * 4,
    "+" * 16,
    *["###+#######+####"] * 4,
    "+" * 16,
    *["#######+########"] * 4,
    "+" * 16,
    "###+#######+####",
]
_TARGET = [
    "",
    "",
    "",
    "",
    "       rr",
    "      rrrr",
    "     rrrrrr",
    "    rrrrrrrr",
    "    rrrrrrrr",
    "     rrrrrr",
    "      rrrr",
    "       rr",
]
_BOX = [
    "",
    " dddddddddddddd",
    " dddddddddddddd",
    " ddbbbbbbbbbbdd",
    " ddbddbbbbddbdd",
    " ddbdddbbdddbdd",
    " ddbbddddddbbdd",
    " ddbbbddddbbbdd",
    " ddbbbddddbbbdd",
    " ddbbddddddbbdd",
    " ddbdddbbdddbdd",
    " ddbddbbbbddbdd",
    " ddbbbbbbbbbbdd",
    " dddddddddddddd",
    " dddddddddddddd",
]
_PLAYER = [
    "",
    "     kkkkkk",
    "    kssssssk",
    "    kskssksk",
    "    kssssssk",
    "     kssssk",
    "    kppppppk",
    "   kppppppppk",
    "   kspppppppsk",
    "   kspppppppsk",
    "    kppppppk",
    "    kppkkppk",
    "    kppk kppk",
    "    kkkk kkkk",
]
_ON_TARGET = str.maketrans("bdp", "ger")


def render(room: Room, state: State) -> Any:
    """The room as a Pillow image in RGB, ``(size * 16, size * 16)`` pixels. Equal states are equal pixels.

    Raises:
        MissingExtra: Pillow is not installed.
    """
    image = imported("PIL.Image", "pictures").new("RGB", (room.size * TILE, room.size * TILE))
    for cell in range(room.size**2):
        row, column = divmod(cell, room.size)
        image.paste(_tile(_kind(room, state, cell), cell in room.targets), (column * TILE, row * TILE))
    return image


def _kind(room: Room, state: State, cell: int) -> str:
    if cell not in room.floor:
        return "wall"
    if cell in state.boxes:
        return "box"
    return "player" if cell == state.player else "floor"


@cache
def _tile(kind: str, on_target: bool) -> Any:
    if kind == "wall":
        layers = [_WALL]
    elif kind == "floor":
        layers = [_FLOOR, _TARGET] if on_target else [_FLOOR]
    else:
        drawn = _BOX if kind == "box" else _PLAYER
        layers = [_FLOOR, [row.translate(_ON_TARGET) for row in drawn] if on_target else drawn]
    image = imported("PIL.Image", "pictures").new("RGB", (TILE, TILE), _COLOURS[" "])
    for layer in layers:
        for y, row in enumerate(layer):
            for x, sign in enumerate(row):
                if sign != " ":
                    image.putpixel((x, y), _COLOURS[sign])
    return image
