"""GiGPO: each trajectory against its group, and each step against the others that began in the same state.

    A_it  = A^E_i + w A^S_it
    A^E_i = (R_i - mean(R_1 .. R_N)) / F(R_1 .. R_N)                over the trajectories of the group
    A^S_it = (G_it - mean(G)) / F(G)                                over the steps of the group whose state is s_it
    G_it  = sum over k >= 0 of gamma^k r_i,t+k

F is the standard deviation (``normalize="mean_std"``) or 1 (``"mean"``). Feng et al., Group-in-Group Policy
Optimization, arXiv:2505.10978, equations 3 to 8. A state that only one step began in says nothing of it: A^S = 0.
The sample's deviation (n - 1), which the paper leaves open, is that of the authors' code.

verl-agent: A^E's statistics are over rows, as in `grpo`, and the penalty for an invalid action is taken from that row's
R and G after the sums, so earlier steps and other rows of the trajectory don't pay.
"""

from __future__ import annotations

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.grpo import VERL_AGENT, grpo
from agent_env.training.credit.relative import Alone, Deviation, Normalize, Votes, relative
from agent_env.training.credit.returns import Penalty, step_returns
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.states import state_groups


def gigpo(
    rows: Rows,
    *,
    gamma: float = 0.95,
    normalize: Normalize = "mean_std",
    step_weight: float = 1.0,
    episode_weight: float = 1.0,
    invalid_penalty: float = 0.1,
    similarity: float | None = None,
    penalty: Penalty = "reward",
    votes: Votes = "trajectory",
    deviation: Deviation = "sample",
    epsilon: float = 0.0,
    alone: Alone = "zero",
) -> FloatArray:
    """One advantage a row."""
    of_episode = grpo(
        rows,
        normalize=normalize,
        invalid_penalty=invalid_penalty,
        penalty=penalty,
        votes=votes,
        deviation=deviation,
        epsilon=epsilon,
        alone=alone,
    )
    of_step = relative(
        step_returns(rows, gamma, invalid_penalty, penalty),
        state_groups(rows, similarity),
        normalize=normalize,
        deviation=deviation,
        epsilon=epsilon,
    )
    return episode_weight * of_episode + step_weight * of_step


GIGPO = Estimator(gigpo, needs=("state",), compares=True, verl_agent=VERL_AGENT)
