import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env import ScoreError, rewards

SCORES = {"a": 0.5, "b": 1.0}


def test_values():
    assert rewards.mean()(SCORES) == 0.75
    assert rewards.total()(SCORES) == 1.5
    assert rewards.step("b")(SCORES) == 1.0
    assert rewards.weighted({"a": 0.5, "b": -0.25})(SCORES) == 0.0
    assert rewards.function("m:f", lambda scores: scores["a"] ** 2)(SCORES) == 0.25
    assert rewards.only()({"a": 0.5}) == 0.5


@pytest.mark.parametrize(
    ("reward", "scores", "message"),
    [
        (rewards.step("c"), SCORES, "the reward 'c' needs the score of step 'c'; recorded: a, b"),
        (rewards.weighted({"a": 1, "d": 1}), SCORES, "needs the score of step 'd'"),
        (rewards.mean(), {}, "no turn has a verifier"),
        (rewards.only(), SCORES, r"there are 2 scores \(a, b\): say reward"),
        (rewards.function("m:f", lambda s: s["x"]), SCORES, "the reward 'm:f' raised KeyError: 'x'"),
        (rewards.function("m:f", lambda s: math.nan), SCORES, "the reward 'm:f' is nan for the scores"),
        (rewards.function("m:f", lambda s: None), SCORES, "the reward 'm:f' raised TypeError"),
    ],
)
def test_what_is_no_reward_is_an_error_that_names_it(reward, scores, message):
    with pytest.raises(ScoreError, match=message):
        reward(scores)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=1), st.data())
def test_a_reward_stays_in_its_bounds(scores, data):
    weights = data.draw(st.dictionaries(st.sampled_from(sorted(scores)), st.floats(-2, 2)))
    for reward in (rewards.mean(), rewards.weighted(weights)):
        assert reward.low - 1e-9 <= reward(scores) <= reward.high + 1e-9


def test_a_score_error_survives_pickling():
    with pytest.raises(ScoreError) as caught:
        rewards.mean()({})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
