"""What the agent sees, in words: nothing that Minigrid's 7×7 view does not show.

Things are named with their colour and where they are from the agent, which looks forward. Of the walls, the nearest one
ahead and to each side is named, if it is seen.
"""

from __future__ import annotations

from typing import Any


def described(world: Any) -> str:
    """The mission, what is carried, and what is seen, nearest first."""
    carried = _named(world.carrying) if world.carrying is not None else "nothing"
    seen = "\n".join(_seen(world)) or "only floor"
    return f"Mission: {world.mission}\nYou carry {carried}.\nYou see:\n{seen}"


def _seen(world: Any) -> list[str]:
    grid, visible = world.gen_obs_grid()
    middle, bottom = grid.width // 2, grid.height - 1
    found: list[tuple[int, int, int, str]] = []
    for column in range(grid.width):
        for row in range(grid.height):
            thing, forward, right = grid.get(column, row), bottom - row, column - middle
            # Where the agent stands, the view has what it carries.
            if thing is not None and visible[column, row] and (forward or right) and thing.type != "wall":
                found.append((forward + abs(right), forward, right, _named(thing)))
    for step_right, step_forward in ((0, 1), (-1, 0), (1, 0)):
        column, row, distance = middle + step_right, bottom - step_forward, 1
        while 0 <= column < grid.width and row >= 0 and visible[column, row]:
            thing = grid.get(column, row)
            if thing is not None and thing.type == "wall":
                found.append((distance, distance * step_forward, distance * step_right, "a wall"))
                break
            column, row, distance = column + step_right, row - step_forward, distance + 1
    return [f"{name}: {_where(forward, right)}" for _, forward, right, name in sorted(found)]


def _named(thing: Any) -> str:
    if thing.type != "door":
        return f"a {thing.color} {thing.type}"
    state = "an open" if thing.is_open else "a locked" if thing.is_locked else "a closed"
    return f"{state} {thing.color} door"


def _where(forward: int, right: int) -> str:
    parts = [f"{forward} forward"] if forward else []
    if right:
        parts.append(f"{abs(right)} {'right' if right > 0 else 'left'}")
    return ", ".join(parts)
