"""Turn-level GAE: a critic's values of the states before each step.

    A_t = sum over k >= 0 of (gamma lambda)^k delta_t+k
    delta_t = r_t + gamma V(s_t+1) - V(s_t)

Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation, arXiv:1506.02438, equation
16, with a step of the environment as the unit of time. The state after a trajectory's last step is worth 0 if the
episode terminated there; if it was cut off, the critic's value of that state can be given in ``bootstrap``.
What the critic learns, the return, is advantage + value. Nothing is whitened here.

verl-agent has none: its PPO runs over the tokens of one row, with the episode's reward at the end of every row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agent_env.training.credit.estimator import Estimator
from agent_env.training.credit.returns import discounted
from agent_env.training.credit.rows import FloatArray, Rows
from agent_env.training.credit.steps import taken


def gae(
    rows: Rows,
    *,
    values: Any,
    bootstrap: Any = None,
    gamma: float = 1.0,
    lam: float = 1.0,
    invalid_penalty: float = 0.1,
) -> FloatArray:
    """One advantage a row.

    Args:
        rows: in which an invalid action's penalty is part of its step's reward.
        values: V of each row's state, one for each row of the `Steps`.
        bootstrap: for each row of the `Steps`, V of the state after it, 0 where the episode terminated; read at the
            last row of each trajectory alone. None: 0 everywhere.
    """
    value = taken(rows, "values", values)
    after = np.where(rows.last, 0.0, value[rows.after])
    if bootstrap is not None:
        after[rows.last] = taken(rows, "bootstrap", bootstrap, of=rows.last)[rows.last]
    delta = rows.step_reward - invalid_penalty * rows.invalid + gamma * after - value
    return discounted(rows, delta, gamma * lam)


GAE = Estimator(gae, verl_agent=None)
