"""GRPO: each trajectory against its group.

    A_i = (R_i - mean(R_1 .. R_N)) / std(R_1 .. R_N)

for the episode rewards R of the N trajectories of a group. Shao et al., DeepSeekMath, arXiv:2402.03300, section 4.1.2.
The paper doesn't say which deviation; the sample's (n - 1) is what the trainers that made it known use.

verl-agent: every row votes, so that long trajectories weigh more; 1e-6 is added to the deviation; a group with a single
row gets its reward as its advantage; the penalty falls on the invalid row alone.
"""

from __future__ import annotations

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.relative import Alone, Deviation, Normalize, Votes, relative, votes_of
from agent_env.training.credit.returns import Penalty, episode_scores
from agent_env.training.credit.rows import FloatArray, Rows

VERL_AGENT = {"votes": "row", "penalty": "row", "epsilon": 1e-6, "alone": "score"}


def grpo(
    rows: Rows,
    *,
    normalize: Normalize = "mean_std",
    invalid_penalty: float = 0.1,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "sample",
    epsilon: float = 0.0,
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row, the same for all rows of a trajectory unless a penalty falls on a row alone."""
    return relative(
        episode_scores(rows, invalid_penalty, penalty),
        rows.group,
        normalize=normalize,
        deviation=deviation,
        epsilon=epsilon,
        votes=votes_of(rows, votes),
        alone=alone,
    )


GRPO = Estimator(grpo, compares=True, verl_agent=VERL_AGENT)
