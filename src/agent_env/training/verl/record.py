"""The trace of a rollout that verl's loop played, or gave up."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agent_env.errors import RolloutFailed
from agent_env.pictures import as_url
from agent_env.training.rollout import Played
from agent_env.training.sessions import Session
from agent_env.training.traces import Trace, TraceWriter
from agent_env.training.verl.attempt import Attempt
from agent_env.training.verl.episodes import seed_of
from agent_env.training.verl.row import Row

logger = logging.getLogger(__name__)


@functools.cache
def _writer(folder: str) -> TraceWriter:
    """One file a process: a loop lives for one rollout only."""
    return TraceWriter(folder)


class Recorder:
    """Writes one rollout's trace; the rollout starts with it.

    Args:
        folder: of the traces; None to write none.
        row: what is played.
        fields: the row's fields, as verl passes them to the loop.
    """

    def __init__(self, folder: str | None, row: Row, fields: Mapping[str, Any]) -> None:
        self._folder, self._row, self._fields = folder, row, fields
        self._started = time.monotonic()

    async def played(self, played: Played[Any], model_seconds: float, **told: Any) -> None:
        """Record a rollout that was scored; `told` are the fields of `Trace` that its loop knows."""
        await self._write(
            status="ok",
            attempts=played.attempts,
            errors=_named(played.failures),
            reward=played.reward,
            scores=dict(played.scores),
            model_seconds=model_seconds,
            env_seconds=played.env_seconds,
            **told,
        )

    async def failed(self, error: BaseException, sessions: Sequence[Session], seconds: float, **told: Any) -> None:
        """Record a rollout that ended in `error`.

        Args:
            sessions: that were opened for it.
            seconds: of the model's.
            told: fields of `Trace` that its loop knows of the last attempt.
        """
        lost = error.attempts if isinstance(error, RolloutFailed) else ()
        await self._write(
            status="failed",
            attempts=len(lost) or len(sessions),
            errors=_named(lost or (error,)),
            model_seconds=seconds,
            env_seconds=sum(session.env_seconds for session in sessions),
            **told,
        )

    async def _write(self, *, info: Mapping[str, Any] | None = None, **values: Any) -> None:
        if self._folder is None:
            return
        step = self._fields.get("global_steps")
        ids = {key: str(self._fields[key]) for key in ("uid", "session_id") if key in self._fields}
        trace = Trace(
            env=str(self._fields.get("data_source", "")).removeprefix("agentenv/"),
            split=self._row.split,
            index=self._row.index,
            task_id=self._row.task_id,
            tools=tuple(tool["function"]["name"] for tool in self._row.tools),
            seconds=time.monotonic() - self._started,
            step=None if step is None else int(step),
            info={**ids, **(info or {})},
            **values,
        )
        try:
            await asyncio.to_thread(_writer(self._folder).write, trace)
        except (OSError, ValueError, TypeError) as error:  # a disk that is full, a message that is no JSON
            # A rollout that was played is worth more than its record.
            logger.error("the trace of %s could not be written: %s", self._row, error)


def conversation(attempt: Attempt, reply: str, prompt: Sequence[Mapping[str, Any]], end: str) -> dict[str, Any]:
    """What a trace says of an attempt that was one conversation.

    Args:
        reply: the text of its last generation.
        prompt: the row's messages, for an attempt in which nothing was generated.
        end: the text of the token that ends a message, which verl leaves in a message's content.
    """
    data = attempt.data
    messages = [_message(message, end) for message in (prompt if data is None else data.messages)]
    said = sum(message["role"] == "assistant" for message in messages)
    if data is not None and said < data.assistant_turns:  # verl ends a capped rollout before it notes the reply
        messages.append({"role": "assistant", "content": reply})
    return {
        "messages": tuple(messages),
        "calls": attempt.calls,
        "seed": seed_of(attempt.session),
        "turns": attempt.turns,
        "info": {
            "generations": [{"prompt_tokens": sent, "cached_tokens": cached} for sent, cached in attempt.generations]
        },
    }


def _message(message: Mapping[str, Any], end: str) -> dict[str, Any]:
    if message["role"] != "assistant":
        content = message["content"]
        return {**message, "content": list(map(_block, content)) if isinstance(content, list) else content}
    said = {**message, "content": message["content"].removesuffix(end)}
    if "tool_calls" in message:
        said["tool_calls"] = [_strict(call) for call in message["tool_calls"]]
    return said


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of a message; a picture, which is open there, as a URL."""
    return {**block, "image": as_url(block["image"])} if block.get("type") == "image" else dict(block)


def _strict(call: dict[str, Any]) -> dict[str, Any]:
    """`call`, its arguments as text if they hold what a strict JSON writer refuses, as a model's NaN."""
    try:
        json.dumps(call, allow_nan=False)
    except ValueError:
        function = call["function"]
        return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}
    return call


def _named(errors: Sequence[BaseException]) -> tuple[str, ...]:
    return tuple(f"{type(error).__name__}: {error}" for error in errors)
