"""What an author writes: a class with `reset`, tools, and perhaps `score` and `close`.

An instance plays one episode: it is made without arguments just before `reset`, and closed after the last turn. Every
method may be plain or async. All randomness must come from the `seed` of `reset`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeAlias

from agent_env.observation import Observation
from agent_env.task import Task
from agent_env.tools import RESERVED_TOOLS, ToolResult, ToolSpec, call_tool, tool, tools_of

__all__ = [
    "RESERVED_TOOLS",
    "DescribedEnvironment",
    "Environment",
    "Observation",
    "Score",
    "TextEnvironment",
    "ToolResult",
    "ToolSpec",
    "call_tool",
    "tool",
    "tools_of",
]

Score: TypeAlias = float | Mapping[str, float]
"""One score in 0..1, or several by name."""


class Environment:
    """Base of every environment. Methods marked `@tool` are what the model may call."""

    def reset(self, task: Task, seed: int) -> Observation | Awaitable[Observation | None] | None:
        """Set the scene for `task` (``task.env`` holds what it needs); return the first observation, or None."""
        raise NotImplementedError(f"{type(self).__name__} has no reset(self, task, seed)")

    def score(self, reply: str) -> Score | Awaitable[Score]:
        """At the end of a turn whose verifier is ``env``: how good the play so far and this reply are, in 0..1."""
        raise NotImplementedError(f"{type(self).__name__} has no score(self, reply)")

    def close(self) -> Awaitable[None] | None:
        """Let go of files, processes and connections. Called once, also after a failure."""
        return None


class TextEnvironment(Environment):
    """An environment moved by text alone: write `step`; the model calls it as the tool ``act``."""

    def step(self, action: str) -> Observation | Awaitable[Observation]:
        """Do `action` and return what is seen then."""
        raise NotImplementedError(f"{type(self).__name__} has no step(self, action)")

    @tool
    def act(self, action: str) -> Any:
        """Do one action and see what happens.

        Args:
            action: what to do, in words.
        """
        return self.step(action)


class DescribedEnvironment(Environment):
    """An environment whose tools are no methods, but described by JSON Schemas; they may differ from task to task."""

    @classmethod
    def tools(cls, task: Task) -> tuple[ToolSpec, ...]:
        """The tools that `task` is played with. Tasks that share them should be given the very same tuple."""
        raise NotImplementedError(f"{cls.__name__} has no tools(cls, task)")

    def call(self, name: str, arguments: dict[str, Any]) -> Any | Awaitable[Any]:
        """Do a call of one of the tools, with arguments that fit its schema; answers like a method that is a tool."""
        raise NotImplementedError(f"{type(self).__name__} has no call(self, name, arguments)")
