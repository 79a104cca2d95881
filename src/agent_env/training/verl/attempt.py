"""One attempt at a rollout: the open episode behind verl's tools, and what the model said in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from verl.experimental.agent_loop.tool_agent_loop import AgentData
from verl.tools.schemas import ToolResponse
from verl.workers.rollout.replica import TokenOutput

from agent_env.tools import END_TURN
from agent_env.training.end_turn import EPISODE_ENDED, NOT_ENDED, reply_of, too_late
from agent_env.training.sessions import Ended, Session
from agent_env.training.step_game import UNSEEN, images_of
from agent_env.training.verl.pictures import Eyes
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

    def __init__(self, tool: Mapping[str, Any], call: Callable[[str, Any], Awaitable[ToolResponse]]) -> None:
        self.tool_schema = typed(tool)
        self.name = self.tool_schema.function.name
        self._call = call

    async def create(self, **_: Any) -> tuple[str, ToolResponse]:
        """Nothing to create: the episode is there. verl releases nothing that has an empty id."""
        return "", ToolResponse()

    async def execute(self, instance_id: str, parameters: Any, **_: Any) -> tuple[ToolResponse, None, dict[str, Any]]:
        """The episode's answer. It has no reward of its own: the episode's end has one."""
        return await self._call(self.name, parameters), None, {}


class NotedServers:
    """verl's rollout servers as a loop sees them, telling of each generation how much of its prompt was cached.

    verl's own loop keeps that of a rollout's first generation alone, whose prompt is new. No generation holds a
    picture's placeholder.

    Args:
        servers: verl's.
        eyes: of the model.
        note: called after each generation with the prompt's tokens and those of them that the server had cached;
            None for a server that does not say.
    """

    def __init__(self, servers: Any, eyes: Eyes, note: Callable[[int, int | None], None]) -> None:
        self._servers, self._eyes, self._note = servers, eyes, note

    async def generate(self, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any) -> TokenOutput:
        """What verl's servers generate."""
        params = self._eyes.sampling(sampling_params)
        output = await self._servers.generate(prompt_ids=prompt_ids, sampling_params=params, **kwargs)
        output = self._eyes.cut(output)
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
        eyes: of the model.

    Attributes:
        turn_over: whether `end_turn` ended a turn in the model's last message: the calls after it were written for
            another turn than the open one.
        data: verl's state of the rollout; None before the first generation.
        calls: made on the episode so far.
        turns: that the model has seen.
        generations: of each, the prompt's tokens and those of them that the rollout server had cached.
    """

    def __init__(self, session: Session, limit: int, url: str, eyes: Eyes) -> None:
        self.session = session
        self.one_at_a_time = asyncio.Lock()
        self.turn_over = False
        self.data: AgentData | None = None
        self.calls, self.turns = 0, 1
        self.generations: list[tuple[int, int | None]] = []
        self._failure: BaseException | None = None
        self._limit, self._url, self._eyes = limit, url, eyes

    def check(self) -> None:
        """Raise what a call failed with, if one did."""
        if self._failure is not None:
            raise self._failure

    async def call(self, name: str, arguments: Any) -> ToolResponse:
        """The episode's answer to a call, whole: its text and, for a model that sees, its pictures.

        Raises what `Session.call` and `Session.end_turn` raise, and EpisodeFailed for a picture that cannot be opened.
        """
        if self.turn_over:
            return ToolResponse(text=too_late(name))
        try:
            if name == END_TURN:
                text, images = await self._end_turn(arguments)
            else:
                self.calls += 1
                answer = await self.session.call(name, arguments)
                text, images = answer.text, answer.images
            shown = await self.look(images)
        except BaseException as error:
            self._failure = error
            raise
        text = self._eyes.plain(self._warn_if_cut(name, text))
        return ToolResponse(text=text, image=shown) if shown else ToolResponse(text=text)

    async def look(self, images: Sequence[str]) -> list[Any]:
        """Pictures opened, for a model that sees any. Raises EpisodeFailed."""
        if images and not self._eyes.open:
            warn_once(self._url, "", "images", UNSEEN)
        return [await self._eyes.look(url) for url in images] if self._eyes.open else []

    async def _end_turn(self, arguments: Any) -> tuple[str, tuple[str, ...]]:
        response = reply_of(arguments)
        if response is None:
            return NOT_ENDED, ()
        prompt_before = self.session.system_prompt
        outcome = await self.session.end_turn(response)
        self.turn_over = True
        if isinstance(outcome, Ended):
            return EPISODE_ENDED, ()
        self.turns += 1
        new_system_prompt = "" if outcome.system_prompt == prompt_before else outcome.system_prompt
        seen = (outcome.observation or {}).get("text")
        text = "\n\n".join(part for part in (new_system_prompt, outcome.prompt, seen) if part)
        return text, images_of(outcome.observation)

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
