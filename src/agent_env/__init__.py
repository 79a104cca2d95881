"""AgentEnv: from an environment and its tasks to a trained agent.

What an author writes with is here; what loads and plays it comes in when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_env.environment import (
    DescribedEnvironment,
    Environment,
    Observation,
    TextEnvironment,
    ToolResult,
    ToolSpec,
    tool,
)
from agent_env.errors import AgentEnvError, BundleError, EpisodeError, InputError, Problem, ScoreError, ToolError
from agent_env.task import Task, Turn

if TYPE_CHECKING:
    from agent_env.bundle import Bundle, load_bundle
    from agent_env.demonstrator import Call, Given, Look, Reply
    from agent_env.episode import Ended, Episode

__all__ = [
    "AgentEnvError",
    "Bundle",
    "BundleError",
    "Call",
    "DescribedEnvironment",
    "Ended",
    "Environment",
    "Episode",
    "EpisodeError",
    "Given",
    "InputError",
    "Look",
    "Observation",
    "Problem",
    "Reply",
    "ScoreError",
    "Task",
    "TextEnvironment",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Turn",
    "load_bundle",
    "tool",
]

_LATER = {
    "Bundle": "bundle",
    "load_bundle": "bundle",
    "Call": "demonstrator",
    "Given": "demonstrator",
    "Look": "demonstrator",
    "Reply": "demonstrator",
    "Ended": "episode",
    "Episode": "episode",
}


def __getattr__(name: str) -> Any:
    """Import on first use what needs pydantic and asyncio, so that ``import agent_env`` stays quick."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
