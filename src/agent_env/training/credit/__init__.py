"""Credit: which rows of a batch of trajectories were better than expected, by the estimators of GRPO to GraphGPO.

Numpy arrays in, a numpy array out. `Steps` holds and checks the rows, `advantages` is the one way in, and each
estimator has a module with its equation. docs/credit.md compares them.
"""

from agent_env.training.credit.advantages import ESTIMATORS, Form, advantages, option_problems
from agent_env.training.credit.states import step_groups
from agent_env.training.credit.steps import Steps

__all__ = ["ESTIMATORS", "Form", "Steps", "advantages", "option_problems", "step_groups"]
