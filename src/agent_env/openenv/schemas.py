"""What ``/metadata`` and ``/schema`` answer."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from agent_env.openenv import messages


class StepObservation(BaseModel):
    """What a step answers: OpenEnv's CallToolObservation, or its ListToolsObservation (`tools`)."""

    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = {}
    tool_name: str = ""
    result: Any = None
    error: dict[str, str] | None = None
    tools: list[dict[str, Any]] | None = None


class ResetObservation(BaseModel):
    """What a reset answers: `metadata` has prompt, system_prompt, task and the environment's first observation."""

    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = {}


class EpisodeState(BaseModel):
    """What ``state`` answers."""

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)
    task_id: str | None = None
    task_name: str | None = None
    split: str | None = None
    index: int | None = None
    turn: int | None = None
    done: bool = False


@cache
def schema() -> dict[str, Any]:
    """JSON Schemas of actions, observations and state."""
    return {
        "action": TypeAdapter(messages.Action).json_schema(),
        "observation": StepObservation.model_json_schema(),
        "reset_observation": ResetObservation.model_json_schema(),
        "state": EpisodeState.model_json_schema(),
    }


def metadata(name: str, description: str) -> dict[str, Any]:
    """The environment in OpenEnv's words."""
    return {
        "name": name,
        "description": description,
        "readme_content": None,
        "version": None,
        "author": None,
        "documentation_url": None,
    }
