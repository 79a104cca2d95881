"""The environment: asks a question, and scores the answer in the reply. There is nothing else to do in it."""

from __future__ import annotations

import re

from agent_env import Environment, Observation, Task
from agent_env.training.actions import split_thought

from .generators import make_question

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)


class ReasoningGym(Environment):
    """The question that ``task.env["generator"]`` makes of the episode's seed."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.question = make_question(task.env["generator"], seed, held_out=task.env["held_out"])
        return Observation(self.question.text)

    def score(self, reply: str) -> float:
        """The score of what the last ``<answer>`` of the reply holds, its thoughts left aside; 0 without one."""
        answers = _ANSWER.findall(split_thought(reply)[1])
        return self.question.score(answers[-1].strip()) if answers else 0.0
