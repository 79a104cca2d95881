"""What the pictures of the games show, as far as a test can see it."""

import numpy as np

from agent_env.bundles.gym_cards.picture import Scene, render


def drawn(*rows, lines=("Formula:",)):
    return np.asarray(render(Scene(rows, lines)))


def test_equal_scenes_are_equal_pixels_and_others_are_not():
    hands = [(first, second) for first in range(14) for second in range(14)]
    assert (drawn((3, 9)) == drawn((3, 9))).all()
    assert len({drawn(hand).tobytes() for hand in hands}) == len(hands)
    assert len({drawn((3, 9), lines=(f"Formula: {n}",)).tobytes() for n in range(30)}) == 30


def test_nothing_runs_over_the_edge():
    table = drawn(lines=())[0, 0]
    for scene in (
        drawn((10,) * 14, (13, 12, 11)),
        drawn((1, 10, 11, 13), lines=("Formula: ( 10 + 10 * 10 )", "* 10 / 10 _ _ _ _ _ _ _", "10 10 10 10 10 10")),
        drawn(lines=("Target: 4", "Current: 2")),
    ):
        edge = np.concatenate([scene[0], scene[-1], scene[:, 0], scene[:, -1]])
        assert (edge == table).all()


def test_every_card_of_a_long_hand_is_seen():
    without = drawn((2,) * 14)
    for place in range(14):
        hand = [2] * 14
        hand[place] = 13
        assert (drawn(tuple(hand)) != without).any()
