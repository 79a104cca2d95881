"""What an episode needs of the place its environment runs in."""

from __future__ import annotations

from typing import Any, Protocol

from agent_env.environment import Score
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult


class Handle(Protocol):
    """One environment of one episode, wherever it runs. One call at a time.

    Author code (the environment, and verifiers, some of which are the author's too) runs behind it and only there.
    A call that is cancelled leaves the handle fit for nothing but `close`.
    """

    async def reset(self, task: Task, seed: int) -> Observation | None:
        """Make the environment and set the scene. Raises EpisodeError."""
        ...

    async def call(self, name: str, arguments: Any) -> ToolResult:
        """Call a tool; a model's mistake is an answer. Raises EpisodeError."""
        ...

    async def score(self, reply: str, turn: Turn) -> Score:
        """What the verifier of `turn` says of `reply`. Raises EpisodeError."""
        ...

    async def close(self) -> None:
        """Close the environment. Safe to call twice, and after any failure. Raises EpisodeError if it refuses."""
        ...
