"""GDPO on numbers worked out by hand."""

import numpy as np
import pytest

from agent_env.errors import InputError
from agent_env.training.credit import Steps, advantages

# Two groups of two trajectories; the first trajectory has two rows.
STEPS = Steps(
    group=["g", "g", "g", "h", "h"],
    trajectory=["a", "a", "b", "c", "d"],
    step=[0, 1, 0, 0, 0],
    step_reward=[0.0] * 5,
    episode_reward=[0.0] * 5,
)
NONE = float("nan")


def test_each_score_counts_the_same_however_much_it_varies():
    scores = {"big": [100.0, 100.0, 0.0, 0.0, 0.0], "small": [0.0, 0.0, 0.0, 0.2, 0.1]}
    got = advantages("gdpo", STEPS, scores=scores)
    # In either group two values normalise to +-1 / sqrt(2): four of mean 0 and deviation 1 / sqrt(2).
    assert got == pytest.approx([1, 1, -1, 1, -1])


def test_weights():
    scores = {"x": [1.0, 1.0, 0.0, 1.0, 0.0], "y": [1.0, 1.0, 0.0, 0.0, 1.0]}
    got = advantages("gdpo", STEPS, scores=scores, weights={"y": 3.0})
    # Sums of (1 + 3, -1 - 3, 1 - 3, -1 + 3) / sqrt(2), over their deviation sqrt((16 + 16 + 4 + 4) / 4 / 2).
    assert got == pytest.approx(np.array([4, 4, -4, -2, 2]) / np.sqrt(10))


def test_a_trajectory_without_a_score_takes_no_part_in_it():
    scores = {"x": [1.0, 1.0, 0.0, None, None], "y": [NONE, NONE, NONE, 1.0, NONE]}
    got = advantages("gdpo", STEPS, scores=scores)
    # "y" is one trajectory's alone: it says nothing. "x": +-1/sqrt(2), 0, 0, over their deviation of 1/2.
    assert got == pytest.approx(np.array([1, 1, -1, 0, 0]) * np.sqrt(2))


def test_everything_wrong_is_said_at_once():
    scores = {"x": [1.0, 2.0, 0.0, 1.0, 0.0], "short": [1.0]}
    with pytest.raises(InputError) as error:
        advantages("gdpo", STEPS, scores=scores, weights={"z": 1.0})
    said = str(error.value)
    for what in ("scores.x, rows 1", "scores.short", "weights.z: is no score"):
        assert what in said
    with pytest.raises(InputError, match="there are none"):
        advantages("gdpo", STEPS, scores={})
    with pytest.raises(InputError, match="scores: is missing"):
        advantages("gdpo", STEPS)
