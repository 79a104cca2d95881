"""The client side of a task server: a session is one socket, and one episode.

`opened` waits for a session, opens its socket and resets the episode; the `Session` it yields lists tools, calls them
and ends turns. A session that lost its socket, or whose caller stopped waiting, is over: it is never reconnected (the
server would hand out a fresh, un-reset environment) and no call is ever sent twice (the tool may have run). Each error
says in `remedy` whether to wait, to replay the task on a new episode, or to stop.

Works with our server and with any OpenEnv 0.9+ server whose environment implements the Task API, takes ``split`` and
``index`` in reset, says ``prompt`` in the observation's metadata and ends turns with an ``end_turn(response)`` tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agent_env.errors import (
    EpisodeFailed,
    NotATaskServer,
    ServerAtCapacity,
    ServerUnreachable,
    SessionError,
    SessionLost,
)
from agent_env.tools import END_TURN
from agent_env.training.answers import (
    Answer,
    Ended,
    Json,
    NextTurn,
    answer_of,
    end_of,
    metadata_of,
    observed,
    openai_tool,
    prompt_of,
    turn_of,
)
from agent_env.training.shared import Shared
from agent_env.training.task_api import TaskRow, TaskServer, read_tasks
from agent_env.training.wire import Socket

__all__ = ["Answer", "Ended", "NextTurn", "Session", "Shared", "TaskRow", "TaskServer", "opened", "probe", "read_tasks"]

FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0
"""Seconds between two tries for a session: doubled from the first to the longest, each shortened at random."""

_jitter = random.Random()  # its own generator: trainers seed the global one alike in every worker


class Session:
    """An episode being played. Made by `opened`.

    Its methods may be awaited concurrently: the wire carries one request at a time, so they take turns, and each one's
    deadline starts with its turn. After an error the session is over; `error` keeps the first.

    Attributes:
        prompt: of the open turn.
        system_prompt: of the open turn, "" if none.
        task: what the server says of the task: ``{"id", "name", "split", "index", "seed", "turn", "turns"}``, or fewer
            of these from a foreign server.
        observation: the first observation, a dict with the fields of `agent_env.Observation`; None if there is none.
        tools: in OpenAI's format, without ``end_turn``; empty until `list_tools` was awaited.
        ended: the episode's end once it came.
        env_seconds: spent waiting for a session, in reset, calls, ending turns and scoring so far.
        error: what ended the session early; None while it lives or after a proper end.
    """

    def __init__(self, socket: Socket, shared: Shared, metadata: Json, env_seconds: float, what: str) -> None:
        self._socket, self._shared, self._what = socket, shared, what
        self._turn = asyncio.Lock()
        self.prompt, self.system_prompt = prompt_of(metadata, what)
        task = metadata.get("task")
        self.task: Json = task if isinstance(task, dict) else {}
        self.observation = observed(metadata)
        self.tools: tuple[Json, ...] = ()
        self.ended: Ended | None = None
        self.env_seconds = env_seconds
        self.error: SessionError | None = None

    async def list_tools(self) -> tuple[Json, ...]:
        """The open turn's tools in OpenAI's format, without ``end_turn``, which is a method here.

        Raises:
            NotATaskServer: the server lists no tools, or none that ends a turn.
            SessionError: as `call`.
        """
        what = f"{self._what}: list_tools"
        async with self._turn:
            with self._recorded():
                data = await self._step({"type": "list_tools"}, what)
                self.tools = _listed(data, what)
        return self.tools

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool, once. A mistake of the model's (an unknown tool, wrong arguments) is an answer like others.

        Args:
            arguments: a dict of JSON values. Anything else is answered without running the tool.

        Raises:
            CallTimedOut, SessionLost, EpisodeFailed: the episode is gone; replay the task on a new one.
            EpisodeUnscored: the call ended the episode without a reward.
            ValueError: the tool is ``end_turn``, which is a method here.
        """
        if name == END_TURN:
            raise ValueError("end_turn is no tool call: await Session.end_turn(response)")
        mistake = self._mistake(name, arguments)
        if mistake:
            return Answer(mistake, is_error=True)
        what = f"{self._what}: {name}"
        async with self._turn:
            if self.ended is not None:
                return Answer("The episode has ended; no tool can be called any more.", is_error=True)
            with self._recorded():
                data = await self._step({"type": "call_tool", "tool_name": name, "arguments": arguments}, what)
                metadata = metadata_of(data, what)
                answer = answer_of(data, metadata, name)
                self.ended = end_of(data, metadata, what)
        return answer

    async def end_turn(self, response: str) -> NextTurn | Ended:
        """End the open turn with the agent's reply. An episode that a tool call ended answers with that end.

        Raises:
            CallTimedOut, SessionLost, EpisodeFailed: the episode is gone; replay the task on a new one.
            EpisodeUnscored: the episode ended, without a reward, and did not fail.
        """
        what = f"{self._what}: end_turn"
        # A reply is decoded text: half of a surrogate pair, which no JSON parser has to take, can only be garbage.
        response = response.encode("utf-8", "replace").decode()
        async with self._turn:
            if self.ended is not None:
                return self.ended
            with self._recorded():
                arguments = {"response": response}
                data = await self._step({"type": "call_tool", "tool_name": END_TURN, "arguments": arguments}, what)
                metadata = metadata_of(data, what)
                self.ended = end_of(data, metadata, what)
                if self.ended is not None:
                    return self.ended
                opened_turn = turn_of(data, metadata, what)
                self.prompt, self.system_prompt = opened_turn.prompt, opened_turn.system_prompt
                return opened_turn

    async def finish(self, response: str) -> Ended:
        """End the open turn with `response`, and every later turn, which the agent never saw, with an empty reply.

        Raises:
            EpisodeFailed: turns go on opening without an end.
            SessionError: as `end_turn`.
        """
        turns = self.task.get("turns")
        for _ in range(turns if isinstance(turns, int) else 1000):
            outcome = await self.end_turn(response)
            if isinstance(outcome, Ended):
                return outcome
            response = ""
        with self._recorded():
            raise EpisodeFailed(f"{self._what}: the episode has more turns than the server said ({turns})")

    async def lost(self) -> SessionError:
        """Wait, for as long as the session lives, until it is lost; returns the error.

        For a player that is busy elsewhere between two requests: a server that went away is noticed at once. Cancel it
        to stop watching.
        """
        how = await self._socket.closed()
        self.error = self.error or SessionLost(f"{self._what}: between two requests: {how}")
        return self.error

    def _mistake(self, name: str, arguments: Any) -> str:
        """Why these arguments cannot be sent; "" if they can."""
        if not isinstance(arguments, dict):
            return f"The arguments of {name} must be a JSON object, not {json.dumps(arguments, default=str)[:200]}."
        try:
            size = len(json.dumps([name, arguments], allow_nan=False, ensure_ascii=False).encode())
        except (ValueError, TypeError, RecursionError) as error:  # NaN, half a surrogate pair, no JSON value, a cycle
            return f"The arguments of {name} are not valid JSON: {error}."
        limit = self._shared.max_message_bytes
        return f"The arguments of {name} take {size} bytes, over the limit of {limit}." if size > limit else ""

    async def _step(self, action: Json, what: str) -> Json:
        if self.error is not None:
            raise SessionLost(f"{what}: the session is over: {self.error}") from self.error
        started = time.monotonic()
        try:
            request = {"type": "step", "data": action}
            return await self._socket.exchange(request, what=what, seconds=self._shared.call_timeout)
        finally:
            self.env_seconds += time.monotonic() - started

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Whatever error ends the session is kept, and the socket dropped: the server frees the session at once."""
        try:
            yield
        except SessionError as error:
            self.error = self.error or error
            self._socket.abort()
            raise
        except asyncio.CancelledError:
            self.error = self.error or SessionLost(f"{self._what}: its caller was cancelled during a request")
            raise


@contextlib.asynccontextmanager
async def opened(
    shared: Shared,
    split: str,
    index: int,
    *,
    seed: int | None = None,
    waits_for_server: bool = False,
    deadline: float | None = None,
) -> AsyncIterator[Session]:
    """Open a session and reset it to a task; the socket is closed on the way out, at once if an error is passing.

    Waits, with growing pauses, for a server with no session to give; with `waits_for_server` also for one that refuses
    connections or goes away before it answered the reset, as a restarting one does.

    Args:
        split: of the task.
        index: of the task in its split.
        seed: of the episode; the task's own if None.
        waits_for_server: for callers that reached the server before, so that a refusal means it is coming back.
        deadline: on `time.monotonic`'s clock: after it no try for a session begins. ``shared.reset_timeout`` from now
            if None. A reset that began has ``shared.reset_timeout`` of its own.

    Raises:
        ServerAtCapacity, ServerUnreachable: still so at the deadline; the message says how long it was waited for.
        CallTimedOut, SessionLost, EpisodeFailed: the reset failed.
        TokenRefused, NotATaskServer: at once.
        InputError: the token cannot be had.
    """
    what = f"{split}[{index}]"
    started = time.monotonic()
    if deadline is None:
        deadline = started + shared.reset_timeout
    data: Json = {"split": split, "index": index}
    if seed is not None:
        data["seed"] = seed
    socket, answer = await _admitted(shared, data, f"{what}: reset", deadline, waits_for_server)
    try:
        metadata = metadata_of(answer, f"{what}: reset")
        _check_task(metadata, split, index)
        session = Session(socket, shared, metadata, time.monotonic() - started, what)
        session.ended = end_of(answer, metadata, what)
        yield session
    except BaseException:
        socket.abort()
        raise
    if session.error is None:
        await socket.close()


async def probe(shared: Shared, split: str, index: int) -> tuple[Json, ...]:
    """A task's tools in OpenAI's format, without ``end_turn``, learned by opening its first turn and leaving it there.

    Raises what `opened` and `Session.list_tools` raise.
    """
    async with opened(shared, split, index) as session:
        return await session.list_tools()


async def _admitted(shared: Shared, data: Json, what: str, deadline: float, waits: bool) -> tuple[Socket, Json]:
    """A socket whose reset was answered, and the answer."""
    started, tries, delay = time.monotonic(), 0, FIRST_DELAY
    last: ServerAtCapacity | ServerUnreachable | None = None
    while True:
        tries += 1
        try:
            socket = await Socket.open(shared, deadline)
            request = {"type": "reset", "data": data}
            return socket, await socket.exchange(request, what=what, seconds=shared.reset_timeout, opening=True)
        except (ServerAtCapacity, ServerUnreachable) as error:
            if isinstance(error, ServerUnreachable) and not waits:
                raise
            # A try that the deadline cut short says less than the one before it.
            if last is None or time.monotonic() < deadline:
                last = error
        pause = delay * _jitter.uniform(0.5, 1.0)
        delay = min(delay * 2, LONGEST_DELAY)
        await asyncio.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        now = time.monotonic()
        if now >= deadline:
            raise type(last)(f"{last}; waited {now - started:.1f} s for it, in {tries} tries") from last


def _check_task(metadata: Json, split: str, index: int) -> None:
    task = metadata.get("task")
    if not isinstance(task, dict):
        return
    got = (task.get("split", split), task.get("index", index))
    if got != (split, index):
        # OpenEnv drops the reset arguments that an environment's signature lacks, without a word.
        raise NotATaskServer(
            f"asked for {split}[{index}], the server reset to {got[0]}[{got[1]}]: it does not select tasks"
        )


def _listed(data: Json, what: str) -> tuple[Json, ...]:
    metadata_of(data, what)
    observation = data.get("observation")
    tools = observation.get("tools") if isinstance(observation, dict) else None
    if not isinstance(tools, list):
        raise NotATaskServer(f"{what}: the answer lists no tools")
    listed = tuple(openai_tool(tool, what) for tool in tools)
    names = [tool["function"]["name"] for tool in listed]
    if END_TURN not in names:
        error = metadata_of(data, what).get("error")
        if error:
            raise EpisodeFailed(f"{what}: {error}")
        raise NotATaskServer(f"{what}: no end_turn among the tools ({', '.join(names) or 'none'}): nothing ends a turn")
    return tuple(tool for tool in listed if tool["function"]["name"] != END_TURN)
