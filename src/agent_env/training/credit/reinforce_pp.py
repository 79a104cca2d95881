"""REINFORCE++: each trajectory against the whole batch.

    A_i = (R_i - mean(R)) / std(R)

over the episode rewards of all trajectories of the batch. Hu et al., REINFORCE++, arXiv:2501.03262. The paper's batch
is one of tokens, each of whose rewards has a penalty for leaving the reference policy: that part is the trainer's
(verl: ``use_kl_in_reward``). Here each trajectory votes once. The deviation is the population's, as in the authors'
code.

verl-agent: the rows' rewards are whitened over the response tokens of the batch, with the sample's deviation. It adds
1e-8 to the variance, which is left out here: for a deviation over 0.03 that is less than 1e-5 of the advantage. Its
return is discounted over the tokens of a row if gamma is not 1; one advantage a row has no place for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agent_env.training.credit.estimator import REQUIRED, Estimator
from agent_env.training.credit.relative import Deviation, Votes, votes_of
from agent_env.training.credit.returns import Penalty, episode_scores
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.steps import taken


def reinforce_pp(
    rows: Rows,
    *,
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "population",
    tokens: Any = None,
) -> FloatArray:
    """One advantage a row.

    Args:
        rows: of the whole batch.
        tokens: how many response tokens each row of the `Steps` has; with it, every token votes once, whatever `votes`.
    """
    return whitened(rows, episode_scores(rows, invalid_penalty, penalty), votes, deviation, tokens)


def whitened(rows: Rows, values: FloatArray, votes: Votes, deviation: Deviation, tokens: Any) -> FloatArray:
    """Values minus the batch's mean, over its standard deviation; 0 if all votes are equal but for rounding."""
    if not len(rows):
        return values
    weight = votes_of(rows, votes).astype(float) if tokens is None else taken(rows, "tokens", tokens, least=0)
    total = weight.sum()
    if total == 0:
        return np.zeros(len(rows))
    low = values.min()
    off = values - (low + np.dot(weight, values - low) / total)
    voting = weight > 0
    if np.abs(off[voting]).max() <= 1e-10 * np.abs(values[voting]).max():
        return np.zeros(len(rows))
    return off / np.sqrt(np.dot(weight, off**2) / (total - (deviation == "sample")))  # type: ignore[no-any-return]


REINFORCE_PP = Estimator(
    reinforce_pp, verl_agent={"votes": "row", "penalty": "row", "deviation": "sample", "tokens": REQUIRED}
)
