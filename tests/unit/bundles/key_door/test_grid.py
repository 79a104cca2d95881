"""Walking, the shortest way, drawing and reading by hand; and what holds for every room."""

from textwrap import dedent

import pytest

from agent_env.bundles.key_door.grid import SIZES, Place, draw, make_room, move, read, shortest

TEXT = dedent("""\
    A . # . .
    . K # . .
    . . D . .
    . . # . .
    . . # . G
    key: no""")


def steps(text, start, goal, shut):
    """The fewest moves between two cells of a drawn room, around walls and the cells `shut`: Bellman and Ford's way."""
    rows = [line.split(" ") for line in text.splitlines()[:-1]]
    cells = {(r, c) for r, row in enumerate(rows) for c, sign in enumerate(row) if sign != "#"} - shut
    far = dict.fromkeys(cells, float("inf")) | {start: 0}
    for _ in cells:
        for r, c in cells:
            near = [far.get(cell, float("inf")) for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1))]
            far[r, c] = min(far[r, c], min(near) + 1)
    return far[goal]


def test_a_room_is_read_and_drawn():
    room, place = read(TEXT)
    assert (room.size, room.door, room.key, room.goal) == (5, (2, 2), (1, 1), (4, 4))
    assert room.walls == {(0, 2), (1, 2), (3, 2), (4, 2)}
    assert place == Place((0, 0), False)
    assert draw(room, place) == TEXT
    with_key = draw(room, Place((1, 1), True))
    assert with_key == TEXT.replace("A", ".").replace("K", "A").replace("no", "yes")
    again, there = read(with_key)
    assert (again.key, there) == (None, Place((1, 1), True))
    in_the_door = draw(room, Place((2, 2), True))
    assert "D" not in in_the_door
    assert read(in_the_door)[0].door == (2, 2)
    with pytest.raises(ValueError, match="goal"):
        read(draw(room, Place((4, 4), True)))


@pytest.mark.parametrize(
    ("cell", "has_key", "action", "there", "then_key"),
    [
        ((0, 0), False, "up", (0, 0), False),  # the room's edge
        ((0, 0), False, "left", (0, 0), False),
        ((4, 4), True, "down", (4, 4), True),
        ((0, 1), False, "right", (0, 1), False),  # a wall
        ((0, 1), False, "down", (1, 1), True),  # over the key
        ((2, 1), False, "right", (2, 1), False),  # the door without the key
        ((2, 1), True, "right", (2, 2), True),  # and with it
        ((2, 2), True, "right", (2, 3), True),
    ],
)
def test_a_move(cell, has_key, action, there, then_key):
    assert move(read(TEXT)[0], Place(cell, has_key), action) == Place(there, then_key)


def test_the_shortest_way_by_hand():
    # Two moves to the key, two to the door, four to the goal.
    way = shortest(*read(TEXT))
    assert len(way) == 8
    room, place = read(TEXT)
    for action in way:
        place = move(room, place, action)
    assert place == Place((4, 4), True)
    with pytest.raises(ValueError, match="no way"):
        shortest(*read(TEXT.replace("D", "#").replace("K", "D")))


@pytest.mark.parametrize("size", SIZES)
def test_every_room_can_be_walked_through_in_as_many_moves_as_its_parts_take(size):
    for seed in range(60):
        room, start = make_room(size, seed, held_out=seed % 2 == 0)
        text, shut = draw(room, start), {room.door}
        to_the_key = steps(text, start.cell, room.key, shut)
        apart = to_the_key + steps(text, room.key, room.door, set()) + steps(text, room.door, room.goal, set())
        assert len(shortest(room, start)) == apart >= size
        assert len(room.walls) == size - 1
        assert steps(text, start.cell, room.goal, shut) == float("inf")


def test_a_seed_is_a_room_and_no_room_is_both_trained_and_evaluated_on():
    assert make_room(6, 7, held_out=False) == make_room(6, 7, held_out=False)
    made = {held_out: {make_room(5, seed, held_out=held_out) for seed in range(1500)} for held_out in (False, True)}
    assert not made[False] & made[True]
    assert len(made[True]) < len(made[False])  # a fifth of all rooms; of some sizes there are not many more


def test_sizes_that_there_are_not():
    with pytest.raises(ValueError, match=r"size: expected 5\.\.8, got 9"):
        make_room(9, 0, held_out=False)
