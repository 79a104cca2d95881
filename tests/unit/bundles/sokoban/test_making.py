"""What holds for every room: it can be solved, as long as there are steps, and no seed gives one that is held out."""

from collections import deque

import pytest

from agent_env.bundles.sokoban.making import BOXES, SIZES, make_puzzle
from agent_env.bundles.sokoban.room import draw, move
from agent_env.bundles.sokoban.solver import solve


def fewest_moves(room, start):
    """The fewest moves to the solved room, by breadth-first search: slow, and knows nothing but the rules."""
    far = {start: 0}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if state.boxes == room.targets:
            return far[state]
        for delta in room.deltas().values():
            following = move(room, state, delta)
            if following not in far:
                far[following] = far[state] + 1
                queue.append(following)
    return None


def end_of(room, state, moves):
    for name in moves:
        state = move(room, state, room.deltas()[name])
    return state


@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("size", SIZES)
def test_every_room_is_solved_by_what_it_was_made_with_and_by_the_solver(size, boxes):
    for seed in range(6):
        room, start, solution = make_puzzle(size, boxes, seed, held_out=seed % 2 == 0)
        assert (room.size, len(start.boxes), len(room.targets)) == (size, boxes, boxes)
        assert start.boxes != room.targets
        assert size <= len(solution)
        assert end_of(room, start, solution).boxes == room.targets
        found = solve(room, start)
        assert found is not None
        assert end_of(room, start, found).boxes == room.targets
        rim = [cell for cell in range(size**2) if cell // size in (0, size - 1) or cell % size in (0, size - 1)]
        assert not room.floor & {*rim}
        assert start.player in room.floor - start.boxes


@pytest.mark.parametrize(("size", "boxes"), [(5, 1), (5, 2), (5, 4), (6, 1), (6, 2), (8, 1), (10, 1)])
def test_the_solution_is_near_the_fewest_moves(size, boxes):
    made = [make_puzzle(size, boxes, seed, held_out=False) for seed in range(12)]
    fewest = [fewest_moves(room, start) for room, start, _ in made]
    lengths = [len(puzzle.solution) for puzzle in made]
    assert all(least is not None and least <= length for least, length in zip(fewest, lengths, strict=True))
    assert sum(lengths) <= 1.2 * sum(fewest)


def test_a_seed_is_a_room_and_no_floor_plan_is_both_trained_and_evaluated_on():
    make_puzzle.cache_clear()
    text = draw(*make_puzzle(7, 2, 3, held_out=False)[:2])
    make_puzzle.cache_clear()
    assert draw(*make_puzzle(7, 2, 3, held_out=False)[:2]) == text
    plans = {
        held_out: {make_puzzle(5, 1, seed, held_out=held_out).room for seed in range(300)} for held_out in (False, True)
    }
    assert not plans[False] & plans[True]


def test_what_there_is_no_room_of():
    with pytest.raises(ValueError, match=r"size: expected 5\.\.10, got 4; boxes: expected 1\.\.4, got 5"):
        make_puzzle(4, 5, 0, held_out=False)
