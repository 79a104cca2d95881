"""Values relative to their group's: what every group-based estimator is made of."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agent_env.training.credit.labels import BoolArray, IntArray
from agent_env.training.credit.rows import FloatArray, Rows

Normalize = Literal["mean", "mean_std"]
"""``"mean"``: value minus the group's mean. ``"mean_std"``: that, over the group's standard deviation."""

Votes = Literal["trajectory", "row"]
"""Who counts once in a trajectory group's mean and deviation: each trajectory, or (verl-agent) each row of one."""

Deviation = Literal["sample", "population"]
"""The divisor of the variance: n - 1 or n."""

Alone = Literal["zero", "score"]
"""The advantage of a group with a single vote: 0, or (verl-agent) its whole value, as if the mean were 0."""

_TIE = 1e-10
"""Values that differ by less than this share of the greatest in their group are equal: what differs is rounding."""


def votes_of(rows: Rows, votes: Votes) -> BoolArray:
    """The rows whose value enters their trajectory group's statistics: the first of each trajectory, or all."""
    return rows.first if votes == "trajectory" else np.ones(len(rows), bool)


def group_means(values: FloatArray, groups: IntArray, votes: BoolArray) -> tuple[FloatArray, IntArray]:
    """The mean of each group's votes and how many there are, by group."""
    group, value = groups[votes], values[votes]
    size = int(groups.max(initial=-1)) + 1
    count = np.bincount(group, minlength=size)
    # Relative to the least, so that the mean of equal values is exactly that value.
    low = np.full(size, np.inf)
    np.minimum.at(low, group, value)
    return low + np.bincount(group, weights=value - low[group], minlength=size) / count, count


def relative(
    values: FloatArray,
    groups: IntArray,
    *,
    normalize: Normalize,
    deviation: Deviation,
    epsilon: float = 0.0,
    votes: BoolArray | None = None,
    alone: Alone = "zero",
) -> FloatArray:
    """Each value minus the mean of its group's votes, over their standard deviation plus epsilon if asked for.

    Args:
        values: one a row.
        groups: a number a row, from 0, none left out.
        votes: the rows that enter the statistics, at least one of each group; all rows if None.

    A group whose votes are all equal has no deviation: normalised by it, its rows get 0.
    """
    if votes is None:
        votes = np.ones(len(values), bool)
    mean, count = group_means(values, groups, votes)
    single = count == 1
    mean[single & (alone == "score")] = 0.0
    result = values - mean[groups]
    if normalize == "mean_std":
        scale = deviations(values, groups, votes, mean, count, deviation)
        scale[single & (alone == "score")] = 1.0
        flat = scale == 0
        result = np.where(flat[groups], 0.0, result / (np.where(flat, 1.0, scale) + epsilon)[groups])
    if alone == "zero":
        result[single[groups]] = 0.0
    return result


def deviations(
    values: FloatArray, groups: IntArray, votes: BoolArray, mean: FloatArray, count: IntArray, deviation: Deviation
) -> FloatArray:
    """The standard deviation of each group's votes; exactly 0 if they are one, or equal but for rounding."""
    group, off = groups[votes], (values - mean[groups])[votes]
    greatest = np.zeros(len(count))
    np.maximum.at(greatest, group, np.abs(values[votes]))
    furthest = np.zeros(len(count))
    np.maximum.at(furthest, group, np.abs(off))
    # Scaled to the furthest value, so that squares neither underflow nor overflow.
    unit = np.where(furthest > 0, furthest, 1.0)
    squares = np.bincount(group, weights=(off / unit[group]) ** 2, minlength=len(count))
    scale = unit * np.sqrt(squares / np.maximum(count - (deviation == "sample"), 1))
    scale[(count == 1) | (furthest <= _TIE * greatest)] = 0.0
    return scale
