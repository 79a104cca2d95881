"""A memory of what was done and what came of it, a line a step."""

from __future__ import annotations

from agent_env.training.memory.base import PastStep, Size, latest

LONGEST = 100
"""Characters of an action, and of an outcome, that a line shows."""


class Summary:
    """Actions and the first line of what came back, within `tokens` (less if the prompt leaves less)."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._lines: list[str] = []

    def add(self, past: PastStep) -> None:
        """Keep a line of it."""
        self._lines.append(f"{past.number}. {_short(past.action)} -> {_short(past.outcome)}")

    def render(self, observation: str, budget: int, size: Size) -> str:
        """A line a step, oldest first; the oldest give way to the budget."""
        return latest(self._lines, min(budget, self._tokens), size, "\n")


def _short(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "(nothing)")
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1]}…"
