"""RLOO: each trajectory against the mean of the others.

    A_i = R_i - mean of R_j over j != i  =  N / (N - 1) * (R_i - mean(R_1 .. R_N))

Ahmadian et al., Back to Basics, arXiv:2402.14740 (after Kool et al., 2019).

verl-agent: N is the number of the group's rows, and its mean is over rows; a group with a single row gets its reward.
"""

from __future__ import annotations

import numpy as np

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.relative import Alone, Votes, group_means, votes_of
from agent_env.training.credit.returns import Penalty, episode_scores
from agent_env.training.credit.rows import FloatArray, Rows


def rloo(
    rows: Rows,
    *,
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row."""
    scores = episode_scores(rows, invalid_penalty, penalty)
    mean, count = group_means(scores, rows.group, votes_of(rows, votes))
    others = count - 1
    result = (scores - mean[rows.group]) * (count / np.maximum(others, 1))[rows.group]
    single = (others == 0)[rows.group]
    result[single] = scores[single] if alone == "score" else 0.0
    return result


RLOO = Estimator(rloo, compares=True, verl_agent={"votes": "row", "penalty": "row", "alone": "score"})
