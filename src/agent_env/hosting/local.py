"""An environment in the caller's own event loop: for tests, for `agent-env check`, and inside the other hosts."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_env.environment import DescribedEnvironment, Environment, Score
from agent_env.errors import EpisodeError, InputError
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult, call_tool
from agent_env.toolsets import call_described

if TYPE_CHECKING:
    from agent_env.bundle import Bundle


class LocalHandle:
    """A `Handle` that calls the author's code directly; code that blocks, blocks the loop it runs in."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._env: Environment | None = None
        self._task: Task | None = None

    async def reset(self, task: Task, seed: int) -> Observation | None:
        await self.close()
        # A copy, since the bundle's own would carry what this environment changes in it to the next episode.
        self._task = replace(task, env=copy.deepcopy(task.env))
        self._env = await _author("__init__", self._bundle.environment)
        seen = await _author("reset", self._env.reset, self._task, seed)
        if seen is not None and not isinstance(seen, Observation):
            raise EpisodeError(f"reset returned a {type(seen).__name__}: return an Observation or None")
        return seen

    async def call(self, name: str, arguments: Any) -> ToolResult:
        env = self._live()
        if isinstance(env, DescribedEnvironment):
            assert self._task is not None
            return await call_described(env, self._bundle.toolset(self._task).tools, name, arguments)
        return await call_tool(env, name, arguments)

    async def score(self, reply: str, turn: Turn) -> Score:
        env, task = self._live(), self._task
        assert task is not None
        try:
            verifier = self._bundle.verifier(turn)
        except InputError as error:
            raise EpisodeError(str(error)) from error
        score: Score = await _author(f"the verifier of turn {turn.id!r}", verifier, reply, task, turn, env)
        return score

    async def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            await _author("close", env.close)

    def _live(self) -> Environment:
        if self._env is None:
            raise EpisodeError("the environment was not reset, or is closed")
        return self._env


async def _author(what: str, function: Any, *arguments: Any) -> Any:
    """Call the author's code, plain or async; whatever it raises is the episode's failure."""
    try:
        value = function(*arguments)
        return await value if inspect.isawaitable(value) else value
    except EpisodeError:
        raise
    except (Exception, SystemExit) as error:
        raise EpisodeError(f"{what} raised {type(error).__name__}: {error}") from error
