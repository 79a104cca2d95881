"""Memories that repeat what was seen and done: nothing, the last steps, all of them."""

from __future__ import annotations

from collections import deque

from agent_env.training.memory.base import PastStep, Size, latest, told


class Nothing:
    """Says nothing: the model sees the current observation alone."""

    def add(self, past: PastStep) -> None:
        """Forgets it."""

    def render(self, observation: str, budget: int, size: Size) -> str:
        """Always ""."""
        return ""


class Recent:
    """The last `steps` observations, with what was done at each."""

    def __init__(self, steps: int) -> None:
        self._past: deque[str] = deque(maxlen=steps)

    def add(self, past: PastStep) -> None:
        """Keep it, and let the oldest go."""
        self._past.append(told(past))

    def render(self, observation: str, budget: int, size: Size) -> str:
        """The last steps, oldest first; the oldest give way to the budget."""
        return latest(list(self._past), budget, size)


class Full:
    """Every observation so far, with what was done at each."""

    def __init__(self) -> None:
        self._past: list[str] = []

    def add(self, past: PastStep) -> None:
        """Keep it."""
        self._past.append(told(past))

    def render(self, observation: str, budget: int, size: Size) -> str:
        """All steps, oldest first; the oldest give way to the budget."""
        return latest(self._past, budget, size)
