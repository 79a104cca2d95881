"""A bundle in a folder, written file by file."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

OF_THEIR_OWN_TIER = ("alfworld", "appworld", "tau2", "textworld")
"""Built-in bundles whose packages `make test` does without: tests/environments is for them."""

ENV = """
from agent_env import Environment, Observation, ToolError, tool


class Counter(Environment):
    \"\"\"A counter that starts at ``task.env["start"]`` and should end at 5.\"\"\"

    def reset(self, task, seed):
        self.value = task.env.get("start", 0)
        return Observation(f"The counter shows {self.value}.")

    @tool
    def add(self, amount: int) -> str:
        \"\"\"Add to the counter.

        Args:
            amount: how much.
        \"\"\"
        if amount == 0:
            raise ToolError("amount: adding 0 does nothing")
        self.value += amount
        return f"The counter shows {self.value}."

    def score(self, reply):
        return 1.0 if self.value == 5 else 0.0
"""

TOML = """
name = "counter"
description = "A counter."
env = "env:Counter"
splits = ["train"]
"""


def task(id: str = "t1", **changes: Any) -> dict[str, Any]:
    """A task of the counter as it is written in a file; `changes` replace its keys."""
    turns = [{"id": "count", "prompt": "Bring the counter to 5.", "verifier": {"type": "env"}}]
    return {"id": id, "turns": turns, **changes}


def jsonl(*tasks: dict[str, Any]) -> str:
    """Tasks, one a line."""
    return "".join(json.dumps(item) + "\n" for item in tasks)


def write_bundle(folder: Path, files: dict[str, str | None] | None = None) -> Path:
    """Write the counter's bundle into `folder`; `files` replace its own or come on top, None leaves one out."""
    every: dict[str, str | None] = {"bundle.toml": TOML, "env.py": ENV, "tasks/train.jsonl": jsonl(task())}
    for name, text in {**every, **(files or {})}.items():
        if text is not None:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return folder
