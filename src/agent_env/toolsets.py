"""The tools that tasks are played with: those of the environment's class, or those that it describes for each task."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_env.environment import DescribedEnvironment, Environment
from agent_env.errors import InputError, Problem
from agent_env.tools import RESERVED_TOOLS, ToolResult, ToolSpec, answered, as_json, not_found, tools_of

if TYPE_CHECKING:
    from agent_env.task import Task

_LONGEST = 200
"""Characters of what is wrong with an argument: a schema's error quotes all of it."""


@dataclass(frozen=True)
class Toolset:
    """The tools that a task is played with, and a hash that two tasks share if and only if their tools are the same."""

    hash: str
    tools: tuple[ToolSpec, ...]


class Toolsets:
    """The toolsets of an environment's class. Raises InputError with every problem of its own tools."""

    def __init__(self, environment: type[Environment]) -> None:
        self._environment = environment
        self._known: dict[int, Toolset] = {}
        self._own = None if issubclass(environment, DescribedEnvironment) else _toolset(tools_of(environment))

    def of(self, task: Task) -> Toolset:
        """The toolset of a task. Raises InputError with every problem of the tools that are described for it."""
        if self._own is not None:
            return self._own
        assert issubclass(self._environment, DescribedEnvironment)
        tools = self._environment.tools(task)
        found = self._known.get(id(tools))
        # Told apart by identity, since a hash takes a look at every schema; a toolset keeps its tuple alive.
        if found is None or found.tools is not tools:
            found = _toolset(_checked(tools, f"{self._environment.__name__}.tools of task {task.id!r}"))
            if found.tools is tools:
                self._known[id(tools)] = found
        return found


async def call_described(env: DescribedEnvironment, tools: Sequence[ToolSpec], name: str, arguments: Any) -> ToolResult:
    """Call a tool that `env` describes, as `agent_env.tools.call_tool` calls one that is a method.

    Raises:
        EpisodeError: the author's code raised something else than ToolError; names the tool.
    """
    spec = next((spec for spec in tools if spec.name == name), None)
    if spec is None:
        return not_found(name, [spec.name for spec in tools])
    if complaint := _complaint(spec, arguments):
        return ToolResult(complaint, True, "invalid_args")
    return await answered(name, lambda: env.call(name, arguments))


def _complaint(spec: ToolSpec, arguments: Any) -> str:
    """What is wrong with arguments, for the model; "" if nothing is."""
    from jsonschema import Draft202012Validator  # takes a while to import, and few bundles need it

    written = as_json(spec.name, arguments)
    if isinstance(written, str):
        return written
    errors = sorted(Draft202012Validator(spec.parameters).iter_errors(arguments), key=lambda error: error.json_path)
    lines = [
        f"- {error.json_path.removeprefix('$').lstrip('.') or 'arguments'}: {_cut(error.message)}" for error in errors
    ]
    return "\n".join([f"Invalid arguments for {spec.name}:", *lines]) if lines else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _toolset(tools: tuple[ToolSpec, ...]) -> Toolset:
    text = json.dumps([tool.openai() for tool in tools], sort_keys=True)
    return Toolset(hashlib.sha256(text.encode()).hexdigest()[:16], tools)


def _checked(tools: object, where: str) -> tuple[ToolSpec, ...]:
    if not isinstance(tools, tuple) or not all(isinstance(tool, ToolSpec) for tool in tools):
        raise InputError(Problem(where, "expected a tuple of ToolSpec", "return the same one for tasks that share it"))
    names = [tool.name for tool in tools]
    problems = []
    for name in dict.fromkeys(names):
        if name in RESERVED_TOOLS:
            problems.append(Problem(where, f"the name {name!r} is reserved", "rename the tool"))
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            problems.append(
                Problem(where, f"{name!r}: model APIs allow 64 of A-Z, a-z, 0-9, _ and -", "rename the tool")
            )
        if names.count(name) > 1:
            problems.append(Problem(where, f"two tools are named {name!r}", "rename one"))
    if problems:
        raise InputError(problems)
    return tools
