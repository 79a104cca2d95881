"""Discounted returns, against the sum written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.training.credit import Steps
from agent_env.training.credit.returns import discounted, step_returns
from support.credit_rows import Fields, batches, fields_of

GAMMAS = st.sampled_from([0.0, 1e-300, 0.1, 0.95, 1 - 1e-12, 1.0]) | st.floats(0, 1)


@given(fields=batches(steps=40), gamma=GAMMAS)
def test_returns_are_the_sum_of_what_follows(fields: Fields, gamma: float) -> None:
    steps = Steps(**fields)
    found = discounted(steps.rows, steps.rows.step_reward, gamma)
    rows = list(zip(fields["trajectory"], fields["step"], fields["step_reward"], strict=True))
    for (trajectory, step, _), value in zip(rows, found, strict=True):
        expected = sum(
            gamma ** (later - step) * reward for name, later, reward in rows if name == trajectory and later >= step
        )
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 1e-200, 0.5, 0.999, 1 - 1e-15, 1.0])
def test_a_long_trajectory_neither_overflows_nor_loses_its_end(gamma: float) -> None:
    rewards = np.random.default_rng(0).normal(size=10_001)
    steps = Steps(["g"] * 10_001, ["t"] * 10_001, range(10_001), rewards, [0] * 10_001)
    expected, after = np.empty(10_001), 0.0
    for at in reversed(range(10_001)):
        expected[at] = after = rewards[at] + gamma * after
    np.testing.assert_allclose(discounted(steps.rows, rewards, gamma), expected, rtol=1e-9, atol=1e-9)


def test_a_penalty_is_a_reward_or_the_rows_own() -> None:
    steps = Steps(**fields_of({("g", "t"): [{}, {"valid": False}, {"reward": 10}]}))
    np.testing.assert_allclose(step_returns(steps.rows, 0.5, 0.1, "reward"), [2.45, 4.9, 10])
    np.testing.assert_allclose(step_returns(steps.rows, 0.5, 0.1, "row"), [2.5, 4.9, 10])
