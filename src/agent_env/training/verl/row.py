"""A row of the writer's parquet files as it reaches a loop: which task it plays, with which tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.training.sessions import Session

FIX = "write the rows anew with `python -m agent_env.training.verl`"


@dataclass(frozen=True)
class Row:
    """What ``extra_info`` says.

    Args:
        split: of the task.
        index: of the task in its split.
        task_id: of the task.
        tools: in OpenAI's format with the full JSON Schema, ``end_turn`` among them for a task of several turns.
    """

    split: str
    index: int
    task_id: str
    tools: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Row:
        """The row whose dataset fields these are.

        Raises:
            InputError: with everything the row lacks.
        """
        extra = fields.get("extra_info")
        if not isinstance(extra, Mapping):
            raise InputError(Problem("row", "has no extra_info", FIX))
        problems = [
            Problem("extra_info", f"has no {key}", FIX)
            for key in ("split", "index", "task_id", "tools")
            if extra.get(key) is None
        ]
        if problems:
            raise InputError(problems)
        where = f"{extra['split']}[{extra['index']}]"
        try:
            tools = json.loads(extra["tools"])
            names = [tool["function"]["name"] for tool in tools]
        except (TypeError, ValueError, KeyError):
            raise InputError(Problem(where, f"extra_info.tools is no list of tools: {extra['tools']!r}", FIX)) from None
        if len(set(names)) < len(names):
            raise InputError(Problem(where, f"two of its tools share a name: {', '.join(names)}", FIX))
        return cls(str(extra["split"]), int(extra["index"]), str(extra["task_id"]), tuple(tools))

    def check_served(self, session: Session, url: str) -> None:
        """Raises InputError if what the server at `url` reset to is another task than the row's."""
        if session.task.get("id") not in (None, self.task_id):
            raise InputError(Problem(str(self), f"the server at {url} has {session.task['id']!r} there", FIX))

    def __str__(self) -> str:
        return f"{self.split}[{self.index}] ({self.task_id})"
