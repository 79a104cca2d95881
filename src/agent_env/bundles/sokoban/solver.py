"""A solver: A* over pushes, each as long as the walk to it and itself (Hart, Nilsson and Raphael, 1968).

The moves still to make are estimated by the sum over boxes of the fewest pushes to a target if the box were alone, and
weighted (Pohl, 1970): solutions come sooner, and are not always the shortest. A box that alone reaches no target any
more is a dead end.
"""

from __future__ import annotations

import heapq
from itertools import count

from .room import Room, State, reachable, walk

WEIGHT = 5
MOST_STATES = 10_000


def solve(room: Room, start: State) -> tuple[str, ...] | None:
    """The moves that put every box onto a target; None if there are none, or none within `MOST_STATES` states."""
    distance = _distances(room)
    deltas = (*room.deltas().values(),)
    if any(box not in distance for box in start.boxes):
        return None
    order = count()
    moves: dict[State, int] = {start: 0}
    came: dict[State, tuple[State, int]] = {}
    done: set[State] = set()
    queue = [(0, next(order), start)]
    while queue and len(done) < MOST_STATES:
        state = heapq.heappop(queue)[2]
        if state.boxes == room.targets:
            return _moves(room, start, state, came)
        if state in done:
            continue
        done.add(state)
        steps = _steps(reachable(room, state.player, state.boxes))
        for box in state.boxes:
            for delta in deltas:
                to = box + delta
                if box - delta not in steps or to not in distance or to in state.boxes:
                    continue
                following = State(box, state.boxes - {box} | {to})
                made = moves[state] + steps[box - delta] + 1
                if made < moves.get(following, made + 1):
                    moves[following] = made
                    came[following] = (state, delta)
                    ahead = sum(distance[other] for other in following.boxes)
                    heapq.heappush(queue, (made + WEIGHT * ahead, next(order), following))
    return None


def _steps(before: dict[int, int]) -> dict[int, int]:
    """How many moves each cell of `reachable` is away."""
    steps: dict[int, int] = {}
    for cell, previous in before.items():  # the nearer cells come first
        steps[cell] = steps[previous] + 1 if cell != previous else 0
    return steps


def _distances(room: Room) -> dict[int, int]:
    """The fewest pushes that take a lone box from a cell to the nearest target, where it can be taken there at all."""
    distance = dict.fromkeys(room.targets, 0)
    queue = list(room.targets)
    for cell in queue:  # grows while it is walked through
        for delta in room.deltas().values():
            if cell + delta in room.floor and cell + 2 * delta in room.floor and cell + delta not in distance:
                distance[cell + delta] = distance[cell] + 1
                queue.append(cell + delta)
    return distance


def _moves(room: Room, start: State, state: State, came: dict[State, tuple[State, int]]) -> tuple[str, ...]:
    """The pushes that led to `state`, with the walks between them."""
    names = {delta: name for name, delta in room.deltas().items()}
    parts: list[list[str]] = []
    while state != start:
        box, (state, delta) = state.player, came[state]
        parts.append([*walk(room, reachable(room, state.player, state.boxes), box - delta), names[delta]])
    return tuple(name for part in reversed(parts) for name in part)
