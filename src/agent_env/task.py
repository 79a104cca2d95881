"""A task and its turns: what is asked of the agent, and what scores each answer. Plain data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Turn:
    """One prompt to the agent. `id` is the step id its score is recorded under.

    `verifier` is the specification of what scores the turn, ``{"type": "regex", ...}`` (see `agent_env.verifiers`), or
    None for a turn that is not scored.
    """

    id: str
    prompt: str
    verifier: dict[str, Any] | None = None


@dataclass(frozen=True)
class Task:
    """One task of a bundle.

    Args:
        id: unique in its bundle.
        turns: at least one; a turn opens when the one before it ended.
        system_prompt: may be empty.
        env: what `Environment.reset` needs to set the scene; JSON-able.
        seed: of the environment. Two episodes of a task with one seed are the same episode.
        name: for people; the id if not given.
    """

    id: str
    turns: tuple[Turn, ...]
    system_prompt: str = ""
    env: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    name: str = ""
