"""The environment of the server's benchmark."""

from __future__ import annotations

from agent_env import Environment, Observation, Task, tool


class Echo(Environment):
    """Says again what it is told."""

    async def reset(self, task: Task, seed: int) -> Observation:
        return Observation("Say something.")

    @tool
    async def echo(self, text: str) -> str:
        """Say it again.

        Args:
            text: what to say.
        """
        return text

    async def score(self, reply: str) -> float:
        return 1.0
