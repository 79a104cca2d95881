"""A number is hidden; each guess is answered with higher, lower or correct."""

from __future__ import annotations

import random

from agent_env import Environment, Task, ToolError, tool

HIGHEST, GUESSES = 15, 4


class HiddenNumber(Environment):
    """One episode. All randomness comes from `seed`, so that a task with its seed is always the same."""

    def reset(self, task: Task, seed: int) -> None:
        self.number = random.Random(seed).randint(1, HIGHEST)
        self.guesses: list[int] = []

    @tool
    def guess(self, number: int) -> str:
        """Guess the hidden number.

        Args:
            number: from 1 to 15.
        """
        if len(self.guesses) == GUESSES:
            raise ToolError(f"all {GUESSES} guesses are used")
        self.guesses.append(number)
        return "correct" if number == self.number else "higher" if number < self.number else "lower"

    def score(self, reply: str) -> float:
        """1 for the number itself, less the further away the last guess was, 0 for none."""
        distance = abs(self.guesses[-1] - self.number) if self.guesses else HIGHEST
        return max(0.0, 1.0 - distance / HIGHEST)
