"""Moves, drawing and reading by hand."""

from textwrap import dedent

import pytest

from agent_env.bundles.sokoban.room import State, draw, move, reachable, read, walk

TEXT = dedent("""\
    # # # # # #
    # P . # . #
    # . X . . #
    # . X O . #
    # . . S . #
    # # # # # #""").replace("S", "V")


def test_a_room_is_read_and_drawn():
    room, state = read(TEXT)
    assert room.size == 6
    assert room.targets == {3 * 6 + 3, 4 * 6 + 3}
    assert state == State(7, frozenset({14, 20, 27}))
    assert len(room.floor) == 15
    assert 9 not in room.floor
    assert draw(room, state) == TEXT
    assert read(f"{TEXT}\nNo steps are left.") == (room, state)
    on_a_target = draw(room, State(21, state.boxes))
    assert on_a_target.splitlines()[3] == "# . X S . #"
    assert read(on_a_target) == (room, State(21, state.boxes))


@pytest.mark.parametrize(
    ("player", "action", "there", "boxes"),
    [
        (7, "up", 7, {14, 20, 27}),  # a wall
        (8, "right", 8, {14, 20, 27}),  # a wall inside
        (7, "down", 13, {14, 20, 27}),
        (13, "right", 14, {15, 20, 27}),  # a push
        (15, "left", 14, {13, 20, 27}),
        (8, "down", 8, {14, 20, 27}),  # a box behind the box
        (26, "right", 27, {14, 20, 28}),  # off the target
        (21, "down", 21, {14, 20, 27}),  # a wall behind the box
        (19, "right", 20, {14, 21, 27}),  # onto the target
    ],
)
def test_a_move(player, action, there, boxes):
    room, state = read(TEXT)
    after = move(room, State(player, state.boxes), room.deltas()[action])
    assert after == State(there, frozenset(boxes))


def test_where_the_player_can_walk():
    room, state = read(TEXT)
    near = reachable(room, 7, state.boxes)
    assert near.keys() == {7, 8, 13, 19, 25, 26}  # the boxes shut the rest off
    assert walk(room, near, 26) == ["down", "down", "down", "right"]
    assert walk(room, near, 7) == []
