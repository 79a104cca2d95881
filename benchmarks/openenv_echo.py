"""OpenEnv's own server with the same environment as in `echo/`, written as OpenEnv's authors write one (async, plain).

``python benchmarks/openenv_echo.py PORT`` serves it as OpenEnv's own environments do: `create_app`, then `uvicorn.run`.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation
from openenv_plain import Plain, answered

MAX_SESSIONS = 256


class Echo(Plain):
    """Says again what it is told."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        task = {"id": "echo", "name": "echo", "split": "train", "index": 0, "seed": 0, "turn": 0, "turns": 1}
        seen = {"text": "Say something.", "images": [], "actions": None, "reward": 0.0}
        return Observation(
            metadata={"prompt": "Say something.", "system_prompt": "", "task": task, "observation": seen}
        )

    async def step_async(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        assert isinstance(action, CallToolAction)
        self._state.step_count += 1
        return answered(action.tool_name, action.arguments["text"])


app = create_app(Echo, CallToolAction, CallToolObservation, env_name="echo", max_concurrent_envs=MAX_SESSIONS)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
