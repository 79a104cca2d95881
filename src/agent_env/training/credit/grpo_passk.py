"""Pass@k: only a group's best trajectory learns, by how much it is better than the second.

    A_i = max(R_1 .. R_N) - max of R_j over j != i

which is R_(1) - R_(2) for the best and 0 for all others, and 0 for all where two share the first place. Tang et al.,
Optimizing Language Models for Inference Time Objectives using Reinforcement Learning, arXiv:2503.19595.
``normalize="mean_std"`` divides by the group's deviation, as verl offers to; nothing is subtracted.

verl-agent: the two best rows are compared, so that a trajectory of several rows ties with itself and gets 0.
"""

from __future__ import annotations

import numpy as np

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.relative import Deviation, Normalize, Votes, deviations, group_means, votes_of
from agent_env.training.credit.returns import Penalty, episode_scores
from agent_env.training.credit.rows import FloatArray, Rows


def grpo_passk(
    rows: Rows,
    *,
    normalize: Normalize = "mean",
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "sample",
    epsilon: float = 0.0,
) -> FloatArray:
    """One advantage a row."""
    scores = episode_scores(rows, invalid_penalty, penalty)
    voting = votes_of(rows, votes)
    mean, count = group_means(scores, rows.group, voting)
    candidates = np.flatnonzero(voting)
    ranked = candidates[np.lexsort((-scores[candidates], rows.group[candidates]))]  # each group's best first
    best = np.cumsum(count) - count
    rivals = count > 1
    gain = np.zeros(len(count))
    gain[rivals] = scores[ranked[best[rivals]]] - scores[ranked[best[rivals] + 1]]
    if normalize == "mean_std":
        scale = deviations(scores, rows.group, voting, mean, count, deviation) + epsilon
        gain = np.divide(gain, scale, out=np.zeros_like(gain), where=scale > 0)
    winner = ranked[best]
    result = np.zeros(len(rows))
    if votes == "row":
        result[winner] = gain
    else:
        of_winner = rows.trajectory == rows.trajectory[winner][rows.group]
        result[of_winner] = gain[rows.group[of_winner]]
    return result


GRPO_PASSK = Estimator(grpo_passk, compares=True, verl_agent={"votes": "row", "penalty": "row", "epsilon": 1e-6})
