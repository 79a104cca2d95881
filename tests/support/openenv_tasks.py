"""A task server made with OpenEnv 0.10 alone, in a process of its own: what a server that is not ours looks like.

``python -m support.openenv_tasks PORT '{"tasks": 3, …}'`` serves the environment `Sums`; `openenv_server` starts one.
``GET /counts`` tells what the server was asked for, so that a test can count probes where they arrive.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.peers import free_port

COUNTS: Counter[str] = Counter()


@dataclass(frozen=True)
class ForeignServer:
    """A running server of `Sums`."""

    url: str
    process: subprocess.Popen[bytes]

    def counts(self) -> dict[str, int]:
        """How often each thing was asked for."""
        counts: dict[str, int] = httpx.get(f"{self.url}/counts", trust_env=False, timeout=30).json()
        return counts


@contextlib.contextmanager
def openenv_server(**options: Any) -> Iterator[ForeignServer]:
    """Serve `Sums` from another process until the block ends.

    Args:
        options: ``tasks`` in the split train (3), ``toolsets`` they are spread over (0: tasks name none),
            ``max_sessions`` (8), ``without``: methods of the Task API that the environment lacks ([]).
    """
    port = free_port()
    tests = str(Path(__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "support.openenv_tasks", str(port), json.dumps(options)],
        env={**os.environ, "PYTHONPATH": tests},
        stdout=subprocess.DEVNULL,
    )
    server = ForeignServer(f"http://127.0.0.1:{port}", process)
    try:
        deadline = time.monotonic() + 90
        while True:
            with contextlib.suppress(httpx.TransportError):
                server.counts()
                break
            assert process.poll() is None, "the server did not start"
            assert time.monotonic() < deadline, "the server did not start in 90 s"
            time.sleep(0.1)
        yield server
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def serve(port: int, options: dict[str, Any]) -> None:
    """Serve until killed."""
    import uvicorn
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.mcp_types import (
        CallToolAction,
        CallToolObservation,
        ListToolsAction,
        ListToolsObservation,
        Tool,
        ToolError,
    )
    from openenv.core.env_server.types import Action, Observation, State

    tasks, toolsets = options.get("tasks", 3), options.get("toolsets", 0)
    sizes = {"train": tasks, "test": 2, "empty": 0}
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def described(split: str, index: int) -> dict[str, Any]:
        task = {"id": f"{split}-{index}", "name": f"sum {index}", "index": index}
        task |= {"prompt": f"Add up to {index}.", "system_prompt": "You add numbers."}
        return task | ({"toolset": f"set-{index % toolsets}"} if toolsets else {})

    class Sums(Environment):  # type: ignore[type-arg]
        """Two turns of adding; the reward is one if each turn's sum is the task's index."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self.split, self.index, self.turn, self.total, self.scores = "", 0, 0, 0, {}

        def list_splits(self) -> list[Any]:
            return ["train", "test", {"name": "empty", "type": "validation"}]

        def num_tasks(self, split: str) -> int:
            return sizes[split]

        def list_tasks(self, split: str) -> list[Any]:
            COUNTS["list_tasks"] += 1
            return [described(split, index) for index in range(sizes[split])]

        def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
            COUNTS["get_task_range"] += 1
            return [described(split, index) for index in range(sizes[split])[start:stop]]

        def reset(self, seed: int | None = None, split: str = "train", index: int = 0, **kwargs: Any) -> Observation:
            COUNTS["reset"] += 1
            self.split, self.index, self.turn, self.total, self.scores = split, index, 0, 0, {}
            return Observation(metadata=self.said())

        def said(self) -> dict[str, Any]:
            task = {"id": f"{self.split}-{self.index}", "split": self.split, "index": self.index}
            return described(self.split, self.index) | {"task": task}

        def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
            if isinstance(action, ListToolsAction):
                COUNTS["list_tools"] += 1
                special = f"tool_of_set_{self.index % toolsets}" if toolsets else "add_one"
                schema = {"type": "object", "properties": {"response": {"type": "string"}}}
                return ListToolsObservation(
                    tools=[
                        Tool(name="add", description="Add a number.", input_schema=number),
                        Tool(name=special, description="Add one.", input_schema={}),
                        Tool(name="end_turn", description="End the turn.", input_schema=schema),
                    ]
                )
            assert isinstance(action, CallToolAction)
            if action.tool_name == "end_turn":
                return self.end_turn(action.arguments["response"])
            if action.tool_name == "hang":
                time.sleep(action.arguments["seconds"])
            if action.tool_name == "crash":
                raise RuntimeError("the environment crashed")
            if action.tool_name == "lost":
                error = ToolError(error_type="transport_error", message="the sandbox is gone")
                return CallToolObservation(tool_name="lost", error=error)
            if action.tool_name not in ("add", "hang"):
                error = ToolError(error_type="tool_not_found", message=f"no tool {action.tool_name}")
                return CallToolObservation(tool_name=action.tool_name, error=error)
            self.total += action.arguments.get("n", 0)
            return CallToolObservation(tool_name=action.tool_name, result=str(self.total))

        def end_turn(self, response: str) -> Observation:
            self.scores[f"turn-{self.turn}"] = float(self.total == self.index)
            self.turn, self.total = self.turn + 1, 0
            if self.turn == 1:
                opened = {"prompt": "Once more.", "system_prompt": ""}
                return CallToolObservation(tool_name="end_turn", result=opened)
            reward = sum(self.scores.values()) / 2
            reward = {"nan": float("nan"), "none": None, "true": True}.get(response, reward)
            return CallToolObservation(tool_name="end_turn", reward=reward, done=True, metadata={"scores": self.scores})

        @property
        def state(self) -> State:
            return State(step_count=0)

    for method in options.get("without", []):
        delattr(Sums, method)
    app = create_app(Sums, Action, Observation, env_name="sums", max_concurrent_envs=options.get("max_sessions", 8))
    app.add_api_route("/counts", lambda: dict(COUNTS))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    serve(int(sys.argv[1]), json.loads(sys.argv[2]))
