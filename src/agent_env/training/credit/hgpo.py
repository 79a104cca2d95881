"""HGPO: each step against those with the same state, the same last two states, and so on.

    A_it = sum over k of w_k A^k_it / sum over k of w_k,    w_k = (k + 1)^alpha,    k = 0 .. K
    A^k_it = (G_it - mean(G)) / std(G)      over the steps of the group with the same s_t-k .. s_t

with G as in `gigpo`. The sums are over the contexts that the step has (k steps before it) and shares with another
step; a step that shares none gets 0. He et al., Hierarchy-of-Groups Policy Optimization, arXiv:2602.22817. The
population's deviation is that of the authors' code. ``base_group`` adds the trajectory's advantage of `gigpo` as the
context below the first: it weighs 1, and context k weighs (k + 2)^alpha.

verl-agent: the weights are (k + 2)^alpha with and without a base group; a context in which the step is exactly average
doesn't count, so that its weight goes to the others; 1e-6 is added to deviations and to the sum of weights; the penalty
falls on the invalid row alone; the base group's statistics are over rows.
"""

from __future__ import annotations

import numpy as np

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.grpo import grpo
from agent_env.training.credit.labels import pairs
from agent_env.training.credit.relative import Alone, Deviation, Normalize, Votes, relative
from agent_env.training.credit.returns import Penalty, step_returns
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.states import state_groups

_ZERO = 1e-9


def hgpo(
    rows: Rows,
    *,
    gamma: float = 0.95,
    normalize: Normalize = "mean_std",
    history: int = 2,
    alpha: float = 1.0,
    base_group: bool = False,
    invalid_penalty: float = 0.1,
    similarity: float | None = None,
    first_weight: float | None = None,
    drop_zeros: bool = False,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "population",
    epsilon: float = 0.0,
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row.

    Args:
        rows: with states.
        history: K, the most states before the step that a context has.
        first_weight: what context k weighs is (k + first_weight)^alpha; 1 if None, or 2 with a base group.
        drop_zeros: leave out contexts in which a step's advantage is 0, but for rounding.
        deviation: of the contexts; the base group's is always the sample's.
    """
    returns = step_returns(rows, gamma, invalid_penalty, penalty)
    offset = first_weight or (2.0 if base_group else 1.0)
    total, weight = np.zeros(len(rows)), np.zeros(len(rows))

    def add(at: np.ndarray, advantage: FloatArray, of: float) -> None:
        if drop_zeros:
            kept = np.abs(advantage) > _ZERO
            at, advantage = at[kept], advantage[kept]
        total[at] += of * advantage
        weight[at] += of

    if base_group:
        base = grpo(
            rows,
            normalize=normalize,
            invalid_penalty=invalid_penalty,
            penalty=penalty,
            votes=votes,
            epsilon=epsilon,
            alone=alone,
        )
        add(np.arange(len(rows)), base, 1.0)
    state = state_groups(rows, similarity)
    context, at = state, np.arange(len(rows))  # `at`: the rows that have a context of k states before theirs
    for k in range(history + 1):
        if k:
            at = at[rows.before[at] >= 0]
            longer = np.full(len(rows), -1, np.int64)
            at = at[context[rows.before[at]] >= 0]
            longer[at] = pairs(context[rows.before[at]], state[at])
            context = longer
        shared = np.bincount(context[at])[context[at]] > 1
        advantage = relative(returns[at], context[at], normalize=normalize, deviation=deviation, epsilon=epsilon)
        add(at[shared], advantage[shared], (k + offset) ** alpha)
    return np.divide(total, weight + epsilon, out=total, where=weight > 0)


HGPO = Estimator(
    hgpo,
    needs=("state",),
    compares=True,
    verl_agent={
        "votes": "row",
        "penalty": "row",
        "epsilon": 1e-6,
        "alone": "score",
        "first_weight": 2.0,
        "drop_zeros": True,
    },
)
