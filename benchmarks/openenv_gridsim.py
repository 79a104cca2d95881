"""OpenEnv's own server with GridSim, written as OpenEnv's authors write an environment (async, plain).

``python benchmarks/openenv_gridsim.py PORT SESSIONS`` serves it as OpenEnv's own environments do: `create_app`, then
`uvicorn.run`. The day, the battery and the grade are the bundle's own code.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation
from openenv_plain import Plain, answered

from agent_env import load_bundle

BUNDLE = load_bundle("gridsim")
TASKS = BUNDLE.tasks("train")


class Grid(Plain):
    """A day of GridSim."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> Observation:
        task = TASKS[more["index"]]
        self._grid = BUNDLE.environment()
        self._grid.reset(task, task.seed)
        said = {"id": task.id, "name": task.name, "split": "train", "index": more["index"], "turn": 0, "turns": 1}
        prompts = {"prompt": task.turns[0].prompt, "system_prompt": task.system_prompt}
        return Observation(metadata={**prompts, "task": said, "observation": None})

    async def step_async(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        assert isinstance(action, CallToolAction)
        self._state.step_count += 1
        if action.tool_name == "end_turn":
            reward = self._grid.score(action.arguments["response"])
            ended = {"scores": {"grade": reward}}
            return CallToolObservation(
                tool_name="end_turn", result={"data": ended}, done=True, reward=reward, metadata=ended
            )
        text = getattr(self._grid, action.tool_name)(**action.arguments)
        return answered(action.tool_name, text)


if __name__ == "__main__":
    app = create_app(
        Grid, CallToolAction, CallToolObservation, env_name="gridsim", max_concurrent_envs=int(sys.argv[2])
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
