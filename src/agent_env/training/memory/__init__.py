"""What a step's prompt says of the steps before it.

A memory is made anew for each episode, told of every step once it was played, and asked before each step for a text
about the past that fits into a budget. It knows no trainer and no network. `memory_of` finds one by its name.
"""

from __future__ import annotations

from agent_env.training.memory.base import Memory, PastStep, Size
from agent_env.training.memory.choice import DEFAULT, memory_of

__all__ = ["DEFAULT", "Memory", "PastStep", "Size", "memory_of"]
