"""REINFORCE++ with baseline: each trajectory against its group, scaled by the whole batch.

    B_i = R_i - mean(R_1 .. R_N) over its group
    A_i = (B_i - mean(B)) / std(B) over the batch

Hu et al., REINFORCE++, arXiv:2501.03262. What `reinforce_pp` says of the batch's statistics holds here.

verl-agent: the group's mean is over rows, the batch's mean and deviation over response tokens.
"""

from __future__ import annotations

from typing import Any

from agent_env.training.credit.estimator import REQUIRED, Estimator
from agent_env.training.credit.grpo import grpo
from agent_env.training.credit.reinforce_pp import whitened
from agent_env.training.credit.relative import Alone, Deviation, Votes
from agent_env.training.credit.returns import Penalty
from agent_env.training.credit.rows import FloatArray, Rows


def reinforce_pp_baseline(
    rows: Rows,
    *,
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "population",
    alone: Alone = "zero",
    tokens: Any = None,
) -> FloatArray:
    """One advantage a row.

    Args:
        rows: of the whole batch.
        tokens: how many response tokens each row of the `Steps` has; with it, every token votes once in the batch's
            statistics. The group's mean is of `votes`.
    """
    off = grpo(rows, normalize="mean", invalid_penalty=invalid_penalty, penalty=penalty, votes=votes, alone=alone)
    return whitened(rows, off, votes, deviation, tokens)


REINFORCE_PP_BASELINE = Estimator(
    reinforce_pp_baseline,
    verl_agent={"votes": "row", "penalty": "row", "deviation": "sample", "alone": "score", "tokens": REQUIRED},
)
