"""One client's session: the episodes it plays, one after another, and the answer to each of its requests.

Whatever goes wrong in an episode is an answer with ``done``, no reward and ``metadata.status == "error"``: never an
exception, never a reward of 0. A mistake in a call is an answer too, and the episode goes on.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from agent_env.episode import Ended, Episode
from agent_env.errors import EpisodeError
from agent_env.openenv import messages
from agent_env.openenv.catalogue import ALL, Catalogue, Entry
from agent_env.tools import END_TURN, ToolResult

logger = logging.getLogger(__name__)

CLOSE_GRACE = 0.5
"""Seconds that the end of a session waits for its environment to close; the closing goes on without it after that."""


class Session:
    """A client's episodes. Requests are answered one at a time, in the order in which they came.

    Args:
        closing: gathers what is still closing when nobody waits for it any more.
        max_message: bytes that an answer may have on the wire.
    """

    def __init__(self, catalogue: Catalogue, closing: set[asyncio.Task[None]], max_message: int) -> None:
        self._catalogue, self._closing, self._max_message = catalogue, closing, max_message
        self._lock = asyncio.Lock()
        self._busy: asyncio.Task[Any] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._entry: Entry | None = None
        self._episode: Episode | None = None
        self._episode_id: str | None = None
        self._last: Episode | None = None  # the open episode, or the one before, of which `State` still tells
        self._why_over = "reset first: no episode is open"

    async def answer(self, request: messages.Reset | messages.Step | messages.State | messages.Rpc) -> str:
        """The frame that answers a request."""
        if isinstance(request, messages.State):
            return messages.state(self._state())
        if isinstance(request, messages.Rpc):
            from agent_env.openenv.mcp import answer_rpc

            return messages.rpc(await answer_rpc(self, request.data))
        frame = messages.observed(await self.observe(request))
        if len(frame) <= self._max_message and len(frame.encode()) <= self._max_message:
            return frame
        what = f"the answer has {len(frame)} characters, over the {self._max_message} bytes of a message"
        return messages.observed(self._failed({}, f"{what}: lower limits.max_answer_bytes or the observation's size"))

    async def observe(self, request: messages.Reset | messages.Step) -> dict[str, Any]:
        """The data of the observation that answers a reset or step."""
        async with self._lock:
            self._busy = asyncio.current_task()
            fields: dict[str, Any] = {}
            try:
                if isinstance(request, messages.Reset):
                    return await self._reset(request.data)
                if isinstance(request.data, messages.ListTools):
                    fields = {"tools": []}
                    return messages.observation({"tools": self._tools()}, {})
                fields = {"tool_name": request.data.tool_name, "result": None, "error": None}
                return await self._call(request.data)
            except EpisodeError as error:
                if self._episode is not None:  # a client's own mistake is its to read, not the server's
                    # Code in a worker process has printed its traceback there.
                    logger.warning("task %r failed: %s", self._episode.task.id, error, exc_info=error.__cause__)
                return self._failed(fields, str(error))
            except Exception as error:
                logger.exception("a request could not be answered")
                return self._failed(fields, f"the server failed: {type(error).__name__}: {error}")
            finally:
                self._busy = None

    async def close(self) -> None:
        """End the session, cancelling a request that is being answered for another task.

        Waits at most `CLOSE_GRACE` for the environment to close.
        """
        if self._busy is not None and self._busy is not asyncio.current_task():
            self._busy.cancel()
            await asyncio.wait([self._busy], timeout=CLOSE_GRACE)
        self._end("the session is closed")
        if self._ending is not None:
            await asyncio.wait([self._ending], timeout=CLOSE_GRACE)

    # --- requests -----------------------------------------------------------------------------------------------

    async def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        self._end("the episode could not be started")
        if self._ending is not None:
            # So that a client has one environment at a time; its episode bounds how long closing may take.
            await asyncio.wait([self._ending])
        self._entry = self._last = None
        self._entry = entry = self._chosen(data)
        try:
            async with asyncio.timeout(entry.bundle.limits.reset_timeout):
                handle = await entry.host.open()
        except TimeoutError:
            limit = entry.bundle.limits.reset_timeout
            raise EpisodeError(f"no place for the environment within limits.reset_timeout ({limit:g} s)") from None
        self._episode = self._last = episode = Episode(entry.bundle, entry.task, handle, data.get("seed"))
        self._episode_id = data.get("episode_id") or uuid.uuid4().hex
        seen = messages.seen(await episode.start())
        return messages.observation({}, self._turn_metadata(episode, entry, seen))

    def _chosen(self, data: dict[str, Any]) -> Entry:
        """The task that a reset asks for. Raises EpisodeError with everything that is wrong with what it asks."""
        split, index = data.get("split"), data.get("index")
        seed, episode_id = data.get("seed"), data.get("episode_id")
        wrong = []
        if (split is None) != (index is None):
            wrong.append("give both split and index, or neither for the first task")
        if split is not None and not isinstance(split, str):
            wrong.append(f"split: expected a string, got {split!r:.80}")
        for name, value in (("index", index), ("seed", seed)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                wrong.append(f"{name}: expected an integer, got {value!r:.80}")
        if episode_id is not None and not (isinstance(episode_id, str) and len(episode_id) <= 255):
            wrong.append("episode_id: expected a string of at most 255 characters")
        if not wrong:
            try:
                return self._catalogue.entry(ALL if split is None else split, 0 if index is None else index)
            except LookupError as error:
                wrong.append(str(error.args[0]))
        raise EpisodeError(f"reset: {'; '.join(wrong)}")

    def _tools(self) -> list[dict[str, Any]]:
        self._live()
        assert self._entry is not None
        return messages.listing(self._entry.toolset.tools)

    async def _call(self, action: messages.CallTool) -> dict[str, Any]:
        episode = self._live()
        assert self._entry is not None
        if action.tool_name == END_TURN:
            return await self._end_turn(episode, self._entry, action.arguments)
        result = await episode.call(action.tool_name, action.arguments)
        metadata = (
            {} if result.observation is None else {"observation": messages.seen(result.observation, answered=True)}
        )
        return messages.observation(messages.tool_answer(action.tool_name, result), metadata)

    async def _end_turn(self, episode: Episode, entry: Entry, arguments: dict[str, Any]) -> dict[str, Any]:
        response = arguments.get("response")
        if not isinstance(response, str) or len(arguments) != 1:
            text = f"Invalid arguments for {END_TURN}: expected exactly one, response, a string"
            return messages.observation(messages.tool_answer(END_TURN, ToolResult(text, True, "invalid_args")), {})
        ended = await episode.end_turn(response)
        if not isinstance(ended, Ended):
            metadata = self._turn_metadata(episode, entry, None)
            data = {"prompt": metadata["prompt"], "system_prompt": metadata["system_prompt"]}
            return messages.observation(messages.turn_answer(data, ended.prompt), metadata)
        task = self._task_metadata()
        self._end("the episode is over: reset to play another")
        data = {"done": True, "reward": ended.reward, "scores": ended.scores}
        fields = messages.turn_answer(data, f"The episode is over, with a reward of {ended.reward:g}.")
        return messages.observation(fields, {"scores": ended.scores, "task": task}, reward=ended.reward, done=True)

    # --- the episode --------------------------------------------------------------------------------------------

    def _live(self) -> Episode:
        if self._episode is None:
            raise EpisodeError(self._why_over)
        return self._episode

    def _end(self, why: str) -> None:
        """Have no episode any more; its environment closes in a task of its own, `_ending`."""
        self._why_over = why
        episode, self._episode = self._episode, None
        if episode is not None:
            self._ending = asyncio.get_running_loop().create_task(_close(episode))
            self._closing.add(self._ending)
            self._ending.add_done_callback(self._closing.discard)

    def _failed(self, fields: dict[str, Any], error: str) -> dict[str, Any]:
        metadata = {"status": "error", "error": error, "task": self._task_metadata()}
        if self._episode is not None:
            self._end(f"the episode has failed: {error}")
        return messages.observation(fields, metadata, done=True)

    def _turn_metadata(self, episode: Episode, entry: Entry, seen: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "prompt": episode.turn.prompt,
            "system_prompt": entry.task.system_prompt,
            "task": self._task_metadata(),
            "observation": seen,
        }

    def _task_metadata(self) -> dict[str, Any]:
        entry, episode = self._entry, self._last
        if entry is None:
            return {}
        return {
            "id": entry.task.id,
            "name": entry.task.name or entry.task.id,
            "split": entry.split,
            "index": entry.index,
            "seed": entry.task.seed if episode is None else episode.seed,
            "turn": 0 if episode is None else episode.turn_index,
            "turns": len(entry.task.turns),
        }

    def _state(self) -> dict[str, Any]:
        task = self._task_metadata()
        return {
            "episode_id": self._episode_id,
            "step_count": 0 if self._last is None else self._last.step_count,
            "task_id": task.get("id"),
            "task_name": task.get("name"),
            "split": task.get("split"),
            "index": task.get("index"),
            "turn": task.get("turn"),
            "done": self._last is not None and self._episode is None,
        }


async def _close(episode: Episode) -> None:
    try:
        await episode.close()
    except EpisodeError as error:
        logger.warning("the environment of task %r: %s", episode.task.id, error)
