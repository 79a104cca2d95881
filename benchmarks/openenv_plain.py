"""What environments for OpenEnv's own server have in common, written as OpenEnv's authors write one (async, plain)."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Plain(Environment):
    """An environment of the asynchronous form, without the two methods that play it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id="", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        raise NotImplementedError("the asynchronous form is used")

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        raise NotImplementedError("the asynchronous form is used")

    @property
    def state(self) -> State:
        return self._state


def answered(tool: str, text: str) -> CallToolObservation:
    """What a tool that answers with text is answered with."""
    result = {
        "content": [{"type": "text", "text": text}],
        "structured_content": None,
        "meta": None,
        "data": text,
        "is_error": False,
    }
    return CallToolObservation(tool_name=tool, result=result)
