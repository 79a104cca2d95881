"""The rows that count, as numbers and an order: what the estimators compute on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_env.training.credit.labels import BoolArray, IntArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a `Steps` that count, one entry each in every array.

    Args:
        batch: how many rows the `Steps` has in all.
        at: where in the batch each row is.
        group, trajectory: numbers from 0, in the order of their labels.
        step, step_reward, episode_reward, success: as in `Steps`.
        state, next_state: as in `Steps`, images replaced by their hashes.
        invalid: 1.0 where the action was invalid, else 0.0.
    """

    batch: int
    at: IntArray
    group: IntArray
    trajectory: IntArray
    step: IntArray
    step_reward: FloatArray
    episode_reward: FloatArray
    state: Sequence[Any] | None
    next_state: Sequence[Any] | None
    invalid: FloatArray
    success: BoolArray | None

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def order(self) -> IntArray:
        """The rows by trajectory, then step."""
        return np.lexsort((self.step, self.trajectory)).astype(np.int64)

    @cached_property
    def first(self) -> BoolArray:
        """Whether a row is the first of its trajectory."""
        sorted_trajectory = self.trajectory[self.order]
        first = np.ones(len(self), bool)
        first[self.order[1:]] = sorted_trajectory[1:] != sorted_trajectory[:-1]
        return first

    @cached_property
    def last(self) -> BoolArray:
        """Whether a row is the last of its trajectory."""
        last = np.ones(len(self), bool)
        last[self.order[:-1]] = self.first[self.order[1:]]
        return last

    @cached_property
    def before(self) -> IntArray:
        """The row before each in its trajectory; -1 for the first."""
        before = np.full(len(self), -1, np.int64)
        before[self.order[1:]] = self.order[:-1]
        before[self.first] = -1
        return before

    @cached_property
    def after(self) -> IntArray:
        """The row after each in its trajectory; -1 for the last."""
        after = np.full(len(self), -1, np.int64)
        after[self.order[:-1]] = self.order[1:]
        after[self.last] = -1
        return after

    def scattered(self, values: FloatArray) -> FloatArray:
        """Values of the rows that count as an array of the whole batch, 0 elsewhere."""
        whole = np.zeros(self.batch)
        whole[self.at] = values
        return whole
