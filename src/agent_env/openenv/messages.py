"""The frames of ``/ws``, as OpenEnv 0.9 and newer exchange them: JSON objects in text frames, one answer a request.

Requests are checked by pydantic as OpenEnv's own are, so that what it refuses is refused here, with the same codes
and every problem at once. Answers are built as plain dicts and encoded by msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from agent_env.errors import EpisodeError
from agent_env.jsonable import plain, readable
from agent_env.observation import Observation
from agent_env.pictures import block_of, travels
from agent_env.tools import END_TURN, ToolResult, ToolSpec

Code = Literal[
    "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR", "CAPACITY_REACHED", "SESSION_ERROR"
]

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ListTools:
    """An action: which tools are there."""

    __pydantic_config__ = _CONFIG

    type: Literal["list_tools"] = "list_tools"
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallTool:
    """An action: call a tool, ``end_turn`` included."""

    __pydantic_config__ = _CONFIG

    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    type: Literal["call_tool"] = "call_tool"
    metadata: dict[str, Any] = field(default_factory=dict)


Action = Annotated[ListTools | CallTool, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class Reset:
    """Open an episode; `data` has ``split`` and ``index``, perhaps ``seed`` and ``episode_id``."""

    __pydantic_config__ = _CONFIG

    data: dict[str, Any] = field(default_factory=dict)
    type: Literal["reset"] = "reset"


@dataclass(frozen=True, slots=True)
class Step:
    """Do an action."""

    __pydantic_config__ = _CONFIG

    data: Action
    type: Literal["step"] = "step"


@dataclass(frozen=True, slots=True)
class State:
    """Ask how far the episode is."""

    __pydantic_config__ = _CONFIG

    type: Literal["state"] = "state"


@dataclass(frozen=True, slots=True)
class Close:
    """End the session."""

    __pydantic_config__ = _CONFIG

    type: Literal["close"] = "close"


@dataclass(frozen=True, slots=True)
class Rpc:
    """A JSON-RPC request of MCP: ``tools/list`` or ``tools/call``."""

    __pydantic_config__ = _CONFIG

    data: dict[str, Any]
    type: Literal["mcp"] = "mcp"


Request = Reset | Step | State | Close | Rpc

_CALL_KEYS = {"type", "tool_name", "arguments"}
_TYPES = ("reset", "step", "state", "close", "mcp")
_adapter: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="type")])


class Refused(Exception):
    """A frame that is no request; `frame` is the answer to it."""

    def __init__(self, frame: str) -> None:
        self.frame = frame


def parse(frame: str | bytes | None) -> Request:
    """The request in a frame; bytes are a binary frame's, which OpenEnv does not use.

    Raises:
        Refused: with the error frame to send. The session lives on.
    """
    if not isinstance(frame, str):
        raise Refused(error("VALIDATION_ERROR", "Invalid message: send text frames, not binary ones"))
    try:
        value = msgspec.json.decode(frame)
    except (ValueError, RecursionError) as problem:
        raise Refused(error("INVALID_JSON", f"Invalid JSON: {problem}")) from None
    if not isinstance(value, dict):
        raise Refused(error("VALIDATION_ERROR", f"Invalid message: expected an object, got {_json_type(value)}"))
    kind = value.get("type", "")
    if kind not in _TYPES:
        raise Refused(error("UNKNOWN_TYPE", f"Unknown message type: {_short(kind)}"))
    try:
        return _common(value) or _adapter.validate_python(value)
    except ValidationError as problem:
        raise Refused(error("VALIDATION_ERROR", "Invalid message", errors=problems(problem))) from None


def _common(value: dict[str, Any]) -> Request | None:
    """A tool call without anything unusual, or a close: nearly every request, known without pydantic's help."""
    if value == {"type": "close"}:
        return Close()
    data = value.get("data")
    if value["type"] != "step" or len(value) != 2 or type(data) is not dict or data.keys() != _CALL_KEYS:
        return None
    name, arguments = data["tool_name"], data["arguments"]
    if data["type"] != "call_tool" or type(name) is not str or type(arguments) is not dict:
        return None
    return Step(CallTool(name, arguments))


def problems(error: ValidationError) -> list[dict[str, Any]]:
    """Every problem of a request, without the request itself, which may be large."""
    return [
        {"type": item["type"], "loc": list(item["loc"]), "msg": item["msg"]}
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _json_type(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."


# --- answers --------------------------------------------------------------------------------------------------


def error(code: Code, message: str, **more: Any) -> str:
    """An error frame."""
    return encode({"type": "error", "data": {"message": message, "code": code, **more}})


def state(data: Mapping[str, Any]) -> str:
    """The answer to `State`."""
    return encode({"type": "state", "data": data})


def rpc(data: Mapping[str, Any]) -> str:
    """The answer to `Rpc`."""
    return encode({"type": "mcp", "data": data})


def observation(
    fields: dict[str, Any], metadata: Mapping[str, Any], *, reward: float | None = None, done: bool = False
) -> dict[str, Any]:
    """The data of an observation frame; `metadata` is in it twice, as OpenEnv's is, for typed and generic clients."""
    fields["metadata"] = metadata
    return {"observation": fields, "reward": reward, "done": done, "metadata": metadata}


def observed(data: dict[str, Any]) -> str:
    """An observation frame."""
    return encode({"type": "observation", "data": data})


def listing(tools: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """Tools in OpenEnv's form, ``end_turn`` last."""
    return [tool_fields(tool) for tool in tools] + [_END_TURN]


def tool_fields(tool: ToolSpec) -> dict[str, Any]:
    """One tool in OpenEnv's form."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


_END_TURN = {
    "name": END_TURN,
    "description": "End the turn with the final answer. It opens the next turn, or ends the episode with its reward.",
    "input_schema": {
        "type": "object",
        "properties": {"response": {"type": "string", "description": "the final answer of this turn"}},
        "required": ["response"],
        "additionalProperties": False,
    },
}


def tool_answer(name: str, result: ToolResult) -> dict[str, Any]:
    """The fields of OpenEnv's CallToolObservation for a tool's answer.

    A call that ran nothing is in ``error``; what the tool itself said, a refusal included, is in ``result``: its text,
    and behind that the pictures of its observation as MCP's image blocks.
    """
    if result.kind in ("tool_not_found", "invalid_args"):
        return {"tool_name": name, "result": None, "error": {"error_type": result.kind, "message": result.text}}
    structured = result.data if isinstance(result.data, dict) else None
    images = () if result.observation is None else filter(travels, result.observation.images)
    return {
        "tool_name": name,
        "result": {
            "content": [{"type": "text", "text": result.text}, *map(block_of, images)],
            "structured_content": structured,
            "meta": None,
            "data": result.text,
            "is_error": result.is_error,
        },
        "error": None,
    }


def turn_answer(data: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The fields of OpenEnv's CallToolObservation for ``end_turn``; `text` is for a reader of ``content``."""
    return {
        "tool_name": END_TURN,
        "result": {
            "content": [{"type": "text", "text": text}],
            "structured_content": None,
            "meta": None,
            "data": data,
            "is_error": False,
        },
        "error": None,
    }


def seen(what: Observation | None, *, answered: bool = False) -> dict[str, Any] | None:
    """An environment's observation as metadata carries it.

    Args:
        answered: whether it is a tool's answer, which has the pictures in its content: they travel once.

    Raises:
        EpisodeError: its `info` is nothing that JSON can hold.
    """
    if what is None:
        return None
    try:
        info = plain(what.info) if what.info else {}
    except ValueError as problem:
        raise EpisodeError(f"Observation.info: {problem}") from problem
    return {
        "text": what.text,
        "images": [url for url in what.images if not (answered and travels(url))],
        "actions": what.actions,
        "state": what.key,
        "reward": what.reward,
        "terminated": what.terminated,
        "truncated": what.truncated,
        "info": info,
    }


def encode(value: Any) -> str:
    """`value` as JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(readable(msgspec.to_builtins(value))).decode()
