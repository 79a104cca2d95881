"""The protocol of a memory, and how texts about the past are made to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Size = Callable[[str], int]
"""The size of a text in the unit of the budget: tokens, in a training."""

SEPARATOR = "\n\n"


@dataclass(frozen=True)
class PastStep:
    """A step that was played.

    Args:
        number: of the step in its episode, from 1.
        observation: what the model saw before it acted, in words; ``[picture]`` for each picture.
        action: what it did, in words; "(no action)" if its reply held none.
        outcome: what came back.
        thought: what it thought, if thoughts are kept; else "".
    """

    number: int
    observation: str
    action: str
    outcome: str
    thought: str = ""


class Memory(Protocol):
    """One episode's memory. A user's own class is made without arguments, once an episode, and dropped at its end."""

    def add(self, past: PastStep) -> None:
        """Take note of a step. Steps come in their order, each once."""

    def render(self, observation: str, budget: int, size: Size) -> str:
        """What the next prompt says of the past; "" for nothing. Changes nothing that a later `render` depends on.

        Args:
            observation: the current one.
            budget: the most that ``size`` of the answer may be; 0 or more.
            size: of a text, in the budget's unit.
        """


def told(past: PastStep) -> str:
    """A step as an observation and an action."""
    thought = f"Thought: {past.thought}\n" if past.thought else ""
    return f"Step {past.number}\nObservation: {past.observation}\n{thought}Action: {past.action}"


def latest(parts: Sequence[str], budget: int, size: Size, separator: str = SEPARATOR) -> str:
    """As many of `parts` as fit, the last ones; a first line says how many are left out, if any are and it fits."""
    left = len(parts)
    used = 0
    while left and (used := used + size(parts[left - 1])) <= budget:
        left -= 1
    # Separators, and what a tokenizer makes of the seams, come on top of the sum.
    for first in range(left, len(parts)):
        mark = [f"(the first {first} of {len(parts)} steps are left out)"] if first else []
        for chosen in ([*mark, *parts[first:]], parts[first:]):
            text = separator.join(chosen)
            if size(text) <= budget:
                return text
    return ""
