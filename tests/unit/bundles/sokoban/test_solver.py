"""The solver by hand."""

from textwrap import dedent

from agent_env.bundles.sokoban.room import read
from agent_env.bundles.sokoban.solver import solve


def room(text):
    return read(dedent(text).strip())


def test_a_push_right_and_a_push_down():
    moves = solve(
        *room("""
        # # # # # #
        # P . . . #
        # . X . . #
        # . . O . #
        # . . . . #
        # # # # # #
        """)
    )
    # Either order of the two pushes takes five moves, and none takes fewer.
    assert moves in (("down", "right", "up", "right", "down"), ("right", "down", "left", "down", "right"))


def test_a_room_that_is_solved():
    assert solve(*room("# # # # #\n# P . V #\n# . . . #\n# . . . #\n# # # # #")) == ()


def test_a_box_in_a_corner_cannot_be_solved():
    assert solve(*room("# # # # #\n# X . . #\n# . P . #\n# . . O #\n# # # # #")) is None


def test_two_boxes_in_a_corridor_in_each_others_way_cannot_be_solved():
    assert solve(*room("# # # # # # #\n# O . X X P #\n# # # # # # #")) is None
