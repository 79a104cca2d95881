"""OpenEnv's own server with the same environment as in `echo/`, written as OpenEnv's authors write one (async, plain).

``python benchmarks/openenv_echo.py PORT`` serves it as OpenEnv's own environments do: `create_app`, then `uvicorn.run`.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State

MAX_SESSIONS = 256


class Echo(Environment):
    """Says again what it is told."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id="", step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        raise NotImplementedError("the asynchronous form is used")

    def step(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        raise NotImplementedError("the asynchronous form is used")

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        task = {"id": "echo", "name": "echo", "split": "train", "index": 0, "seed": 0, "turn": 0, "turns": 1}
        seen = {"text": "Say something.", "images": [], "actions": None, "reward": 0.0}
        return Observation(
            metadata={"prompt": "Say something.", "system_prompt": "", "task": task, "observation": seen}
        )

    async def step_async(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        assert isinstance(action, CallToolAction)
        self._state.step_count += 1
        text = action.arguments["text"]
        result = {
            "content": [{"type": "text", "text": text}],
            "structured_content": None,
            "meta": None,
            "data": text,
            "is_error": False,
        }
        return CallToolObservation(tool_name=action.tool_name, result=result)

    @property
    def state(self) -> State:
        return self._state


app = create_app(Echo, CallToolAction, CallToolObservation, env_name="echo", max_concurrent_envs=MAX_SESSIONS)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
