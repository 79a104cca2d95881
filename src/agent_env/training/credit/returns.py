"""Returns of steps and of trajectories, with the penalty for invalid actions in them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agent_env.training.credit.rows import FloatArray, Rows

Penalty = Literal["reward", "row"]
"""What an invalid action costs. ``"reward"``: a reward of -c at that step, so it is in its trajectory's return and,
discounted, in the returns of the steps before it. ``"row"`` (verl-agent): c less for that row alone, after the sums."""


def discounted(rows: Rows, rewards: FloatArray, gamma: float) -> FloatArray:
    """The sum over the row's trajectory, from the row on, of gamma^k times the reward k rows later.

    In log2(longest trajectory) passes: a sum over 2m rows is one over m rows plus gamma^m times the one m rows later. A
    power of gamma that underflows is a term too small to matter; nothing is divided, so nothing overflows.
    """
    order = rows.order
    sums = rewards[order]
    # How many rows of its trajectory come after each, in sorted order.
    ends = np.flatnonzero(rows.last[order])
    left = np.repeat(ends, np.diff(ends, prepend=-1)) - np.arange(len(sums))
    reach, factor = 1, float(gamma)
    while reach <= left.max(initial=0) and factor > 0:
        inside = np.flatnonzero(left >= reach)
        sums[inside] = sums[inside] + factor * sums[inside + reach]  # the right side is read whole before it is written
        reach, factor = 2 * reach, factor * factor
    result = np.empty_like(sums)
    result[order] = sums
    return result


def step_returns(rows: Rows, gamma: float, invalid_penalty: float, penalty: Penalty) -> FloatArray:
    """The discounted return of each row."""
    cost = invalid_penalty * rows.invalid
    if penalty == "reward":
        return discounted(rows, rows.step_reward - cost, gamma)
    return discounted(rows, rows.step_reward, gamma) - cost


def episode_scores(rows: Rows, invalid_penalty: float, penalty: Penalty) -> FloatArray:
    """The episode reward that each row stands for."""
    if penalty == "reward":
        of_trajectory = np.zeros(int(rows.trajectory.max(initial=-1)) + 1)
        np.add.at(of_trajectory, rows.trajectory, rows.invalid)
        invalid = of_trajectory[rows.trajectory]
    else:
        invalid = rows.invalid
    return rows.episode_reward - invalid_penalty * invalid
