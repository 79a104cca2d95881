"""One number of an episode's scores: a step's score, the mean, the sum, a weighted sum, or a function of the author's.

A reward function is plain arithmetic: it runs in the server itself, between an episode's last score and its answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_env.errors import ScoreError

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Reward:
    """How scores become a reward.

    Args:
        name: as it was written in bundle.toml.
        function: of all scores by step id.
        steps: ids whose scores it needs; empty for one that takes what there is.
        low, high: the least and the greatest reward for scores in 0..1; None where the number of steps decides.
    """

    name: str
    function: Callable[[Scores], float]
    steps: tuple[str, ...] = ()
    low: float = 0.0
    high: float | None = 1.0

    def __call__(self, scores: Scores) -> float:
        """The reward of an episode with these scores.

        Raises:
            ScoreError: a score that it needs is missing, the function raised, or its result is no finite number.
        """
        for step in self.steps:
            if step not in scores:
                have = ", ".join(scores) or "none"
                raise ScoreError(f"the reward {self.name!r} needs the score of step {step!r}; recorded: {have}")
        if not scores:
            raise ScoreError(f"the reward {self.name!r} has no score to work with: no turn has a verifier")
        try:
            reward = float(self.function(scores))
        except Exception as error:
            raise ScoreError(f"the reward {self.name!r} raised {type(error).__name__}: {error}") from error
        if not math.isfinite(reward):
            raise ScoreError(f"the reward {self.name!r} is {reward} for the scores {dict(scores)}")
        return reward


def mean() -> Reward:
    """The mean of all scores."""
    return Reward("mean", lambda scores: sum(scores.values()) / len(scores))


def total() -> Reward:
    """The sum of all scores."""
    return Reward("sum", lambda scores: sum(scores.values()), high=None)


def step(step_id: str) -> Reward:
    """The score of one step."""
    return Reward(step_id, lambda scores: scores[step_id], (step_id,))


def weighted(weights: Mapping[str, float]) -> Reward:
    """The sum of weight times score; a negative weight is a penalty."""
    low = sum(w for w in weights.values() if w < 0)
    high = sum(w for w in weights.values() if w > 0)
    table = dict(weights)
    return Reward("weights", lambda s: sum(w * s[name] for name, w in table.items()), tuple(table), low, high)


def function(name: str, call: Callable[[Scores], float]) -> Reward:
    """An author's function from scores by step id to a number in 0..1."""
    return Reward(name, call)


def only() -> Reward:
    """The one score there is, for tasks with a single scored turn."""
    return Reward("the only score", _only)


def _only(scores: Scores) -> float:
    if len(scores) != 1:
        raise ValueError(f"there are {len(scores)} scores ({', '.join(scores)}): say reward = … in bundle.toml")
    return next(iter(scores.values()))
