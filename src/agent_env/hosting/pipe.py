"""What a server and its worker processes say to each other: JSON, each message after its length.

JSON both ways, because what a worker sends is in the hands of the author's code: it can be wrong, never run anything.
A score is written as text, since a NaN must arrive as what it is and be refused by name.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

import msgspec

from agent_env.environment import Score
from agent_env.errors import EpisodeError, ScoreError
from agent_env.jsonable import plain, readable
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

LENGTH = struct.Struct("!I")
MAX_MESSAGE = 256 * 1024 * 1024
"""Bytes; far over any answer's cap, which is applied later. A worker that claims more is not speaking this protocol."""


class Request(msgspec.Struct):
    """From the server: one call of the environment. Which fields count depends on `do`."""

    do: Literal["reset", "call", "score", "close"]
    task: Task | None = None
    seed: int = 0
    name: str = ""
    arguments: Any = None
    reply: str = ""
    turn: Turn | None = None


class ScoreText(msgspec.Struct):
    """A score as text: a number's, or the repr of what is none."""

    text: str
    is_number: bool

    @classmethod
    def of(cls, value: Any) -> ScoreText:
        if isinstance(value, Real):
            return cls(repr(float(value)), True)
        return cls(f"{value!r:.200}", False)

    @property
    def value(self) -> Any:
        """The number, or the text of what was none (which no check of a score lets pass)."""
        return float(self.text) if self.is_number else self.text


class Reply(msgspec.Struct):
    """From the worker: exactly one field is set, but for a reset or close that returned None."""

    observation: Observation | None = None
    result: ToolResult | None = None
    score: ScoreText | None = None
    scores: dict[str, ScoreText] | None = None
    error: str | None = None
    is_score_error: bool = False

    @classmethod
    def of_score(cls, value: Any) -> Reply:
        if isinstance(value, Mapping):
            return cls(scores={str(name): ScoreText.of(item) for name, item in value.items()})
        return cls(score=ScoreText.of(value))

    @classmethod
    def of_error(cls, error: Exception) -> Reply:
        return cls(error=str(error), is_score_error=isinstance(error, ScoreError))

    def raise_if_failed(self) -> Reply:
        """This reply, unless it tells of a failure. Raises EpisodeError."""
        if self.error is not None:
            raise ScoreError(self.error) if self.is_score_error else EpisodeError(self.error)
        return self

    def the_score(self) -> Score:
        if self.scores is not None:
            return {name: item.value for name, item in self.scores.items()}
        if self.score is None:
            raise EpisodeError("the worker process answered without a score")
        value: Score = self.score.value
        return value


def encode(message: Request | Reply) -> bytes:
    """`message` with its length before it. Raises ValueError for what has no JSON form."""
    try:
        body = msgspec.json.encode(message, enc_hook=plain)
    except UnicodeEncodeError:
        # A lone surrogate, as in the name of a file that is not UTF-8.
        body = msgspec.json.encode(readable(msgspec.to_builtins(message, enc_hook=plain)))
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes, the limit is {MAX_MESSAGE}")
    return LENGTH.pack(len(body)) + body


decode_request = msgspec.json.Decoder(Request).decode
decode_reply = msgspec.json.Decoder(Reply).decode
