"""Dr. GRPO: GRPO without the division.

    A_i = R_i - mean(R_1 .. R_N)

Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783. Its other half, a loss that is not divided by the
length of a response, is the trainer's (verl: ``loss_agg_mode=seq-mean-token-sum-norm``).

verl-agent: GRPO with ``norm_adv_by_std_in_grpo=False``, its conventions the same as there.
"""

from __future__ import annotations

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.grpo import grpo
from agent_env.training.credit.relative import Alone, Votes
from agent_env.training.credit.returns import Penalty
from agent_env.training.credit.rows import FloatArray, Rows


def dr_grpo(
    rows: Rows,
    *,
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row."""
    return grpo(rows, normalize="mean", invalid_penalty=invalid_penalty, penalty=penalty, votes=votes, alone=alone)


DR_GRPO = Estimator(dr_grpo, compares=True, verl_agent={"votes": "row", "penalty": "row", "alone": "score"})
