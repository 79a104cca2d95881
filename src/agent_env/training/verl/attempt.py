"""One attempt at a rollout: the open episode behind verl's tools, and what the model said in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from verl.experimental.agent_loop.tool_agent_loop import AgentData
from verl.tools.schemas import ToolResponse
from verl.workers.rollout.replica import TokenOutput

from agent_env.tools import END_TURN
from agent_env.training.end_turn import EPISODE_ENDED, NOT_ENDED, reply_of, too_late
from agent_env.training.sessions import Ended, Session
from agent_env.training.verl.schemas import typed

logger = logging.getLogger(__name__)

_warned: set[tuple[str, str, str]] = set()
"""What this process has warned of. A loop lives for one rollout, so it cannot remember."""


def warn_once(url: str, name: str, about: str, message: str) -> None:
    """Warn of something once in this process.

    Args:
        url: of the server.
        name: of the tool; "" for none.
        about: a word for what it is about.
    """
    key = (url, name, about)
    if key not in _warned:
        _warned.add(key)
        logger.warning("%s: %s", url, message)


class EpisodeTool:
    """A tool of the row as verl's loop wants one: `tool_schema` for its parsers, `create` and `execute` for a call."""

    def __init__(self, tool: Mapping[str, Any], call: Callable[[str, Any], Awaitable[str]]) -> None:
        self.tool_schema = typed(tool)
        self.name = self.tool_schema.function.name
        self._call = call

    async def create(self, **_: Any) -> tuple[str, ToolResponse]:
        """Nothing to create: the episode is there. verl releases nothing that has an empty id."""
        return "", ToolResponse()

    async def execute(self, instance_id: str, parameters: Any, **_: Any) -> tuple[ToolResponse, None, dict[str, Any]]:
        """The episode's answer. It has no reward of its own: the episode's end has one."""
        return ToolResponse(text=await self._call(self.name, parameters)), None, {}


class NotedServers:
    """verl's rollout servers as a loop sees them, telling of each generation how much of its prompt was cached.

    verl's own loop keeps that of a rollout's first generation alone, whose prompt is new.

    Args:
        servers: verl's.
        note: called after each generation with the prompt's tokens and those of them that the server had cached;
            None for a server that does not say.
    """

    def __init__(self, servers: Any, note: Callable[[int, int | None], None]) -> None:
        self._servers, self._note = servers, note

    async def generate(self, *, prompt_ids: list[int], **kwargs: Any) -> TokenOutput:
        """What verl's servers generate."""
        output = await self._servers.generate(prompt_ids=prompt_ids, **kwargs)
        self._note(len(prompt_ids), output.extra_fields.get("num_cached_tokens"))
        return output


class Attempt:
    """An open session being played.

    verl turns whatever a tool raises into text for the model. A lost episode must not be: it is kept in `failure`, and
    `check` raises it where verl no longer catches it.

    Args:
        session: just reset.
        limit: characters of an answer that verl lets through.
        url: of the server, for the warnings.

    Attributes:
        turn_over: whether `end_turn` ended a turn in the model's last message: the calls after it were written for
            another turn than the open one.
        data: verl's state of the rollout; None before the first generation.
        calls: made on the episode so far.
        turns: that the model has seen.
        generations: of each, the prompt's tokens and those of them that the rollout server had cached.
    """

    def __init__(self, session: Session, limit: int, url: str) -> None:
        self.session = session
        self.one_at_a_time = asyncio.Lock()
        self.turn_over = False
        self.data: AgentData | None = None
        self.calls, self.turns = 0, 1
        self.generations: list[tuple[int, int | None]] = []
        self._failure: BaseException | None = None
        self._limit, self._url = limit, url

    def check(self) -> None:
        """Raise what a call failed with, if one did."""
        if self._failure is not None:
            raise self._failure

    async def call(self, name: str, arguments: Any) -> str:
        """The episode's answer to a call, whole. Raises what `Session.call` and `Session.end_turn` raise."""
        if self.turn_over:
            return too_late(name)
        try:
            if name == END_TURN:
                return self._warn_if_cut(name, await self._end_turn(arguments))
            self.calls += 1
            answer = await self.session.call(name, arguments)
        except BaseException as error:
            self._failure = error
            raise
        if answer.images:
            warn_once(
                self._url,
                name,
                "images",
                f"{name} answered with images: this loop shows the model an answer's text alone",
            )
        return self._warn_if_cut(name, answer.text)

    async def _end_turn(self, arguments: Any) -> str:
        response = reply_of(arguments)
        if response is None:
            return NOT_ENDED
        prompt_before = self.session.system_prompt
        outcome = await self.session.end_turn(response)
        self.turn_over = True
        if isinstance(outcome, Ended):
            return EPISODE_ENDED
        self.turns += 1
        new_system_prompt = "" if outcome.system_prompt == prompt_before else outcome.system_prompt
        seen = (outcome.observation or {}).get("text")
        return "\n\n".join(part for part in (new_system_prompt, outcome.prompt, seen) if part)

    def warn_if_unrun(self, calls: int, limit: int) -> None:
        """verl runs the first `limit` calls of a message and says nothing of the others."""
        if calls > limit:
            warn_once(
                self._url,
                "",
                "unrun",
                f"the model made {calls} tool calls in one message and verl runs {limit}: raise "
                "actor_rollout_ref.rollout.multi_turn.max_parallel_calls if all of them should be answered",
            )

    def _warn_if_cut(self, name: str, text: str) -> str:
        if len(text) > self._limit:
            warn_once(
                self._url,
                name,
                "cut",
                f"an answer of {name} has {len(text)} characters and verl cuts it to {self._limit}: raise "
                "actor_rollout_ref.rollout.multi_turn.max_tool_response_length if the model should see it whole",
            )
        return text
