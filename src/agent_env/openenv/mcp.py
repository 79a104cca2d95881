"""JSON-RPC as OpenEnv's MCPToolClient speaks it: in ``mcp`` frames of ``/ws``, and over ``POST /mcp``.

Served are ``tools/list`` and ``tools/call`` in a session that a reset has given an episode, and OpenEnv's
``openenv/session/create`` and ``/close``. A call that fails the episode is a JSON-RPC error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from agent_env.openenv import messages
from agent_env.openenv.admission import AtCapacity
from agent_env.openenv.auth import HOLDER
from agent_env.openenv.bodies import json_body
from agent_env.openenv.holders import Holder
from agent_env.openenv.sessions import Sessions, UnknownSession

if TYPE_CHECKING:
    from agent_env.openenv.session import Session

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, SERVER_ERROR = -32600, -32601, -32602, -32603, -32000


class Call(BaseModel):
    """A JSON-RPC 2.0 request."""

    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = {}
    id: str | int | None = None


async def answer_rpc(session: Session, data: Any) -> dict[str, Any]:
    """The response to a JSON-RPC request within `session`."""
    try:
        call = Call.model_validate(data)
    except ValidationError as error:
        return _failure(None, INVALID_REQUEST, "Invalid request", problems=messages.problems(error))
    if call.method == "tools/list":
        return _listed(call, await session.observe(messages.Step(messages.ListTools())))
    if call.method != "tools/call":
        return _failure(call.id, METHOD_NOT_FOUND, f"Method not found: {call.method}")
    name, arguments = call.params.get("name"), call.params.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return _failure(call.id, INVALID_PARAMS, "expected params.name, a string, and params.arguments, an object")
    return _called(call, await session.observe(messages.Step(messages.CallTool(name, arguments))))


def _listed(call: Call, data: dict[str, Any]) -> dict[str, Any]:
    if data["done"]:
        return _failure(call.id, INVALID_REQUEST, data["metadata"]["error"])
    tools = [
        {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
        for tool in data["observation"]["tools"]
    ]
    return {"jsonrpc": "2.0", "id": call.id, "result": {"tools": tools}}


def _called(call: Call, data: dict[str, Any]) -> dict[str, Any]:
    if data["metadata"].get("status") == "error":
        return _failure(call.id, INTERNAL_ERROR, data["metadata"]["error"])
    observation = data["observation"]
    if observation["error"] is not None:
        return _failure(call.id, INVALID_PARAMS, observation["error"]["message"])
    more = {"done": data["done"], "reward": data["reward"], "metadata": data["metadata"]}
    return {"jsonrpc": "2.0", "id": call.id, "result": {**observation["result"], **more}}


def _failure(call_id: str | int | None, code: int, message: str, **data: Any) -> dict[str, Any]:
    error = {"code": code, "message": message, "data": data or None}
    return {"jsonrpc": "2.0", "id": call_id, "error": error}


class McpEndpoint:
    """``POST /mcp``."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def answer(self, request: Request) -> Response:
        """The endpoint."""
        data = await json_body(request, self._sessions.max_message)
        text = messages.encode(await self._answer(data, request.scope.get(HOLDER)))
        return Response(text, media_type="application/json")

    async def _answer(self, data: Any, holder: Holder | None) -> dict[str, Any]:
        try:
            call = Call.model_validate(data)
        except ValidationError as error:
            return _failure(None, INVALID_REQUEST, "Invalid request", problems=messages.problems(error))
        try:
            if call.method == "openenv/session/create":
                return {"jsonrpc": "2.0", "id": call.id, "result": {"session_id": await self._sessions.make(holder)}}
            name = call.params.pop("session_id", None)
            if not isinstance(name, str):
                return _failure(call.id, INVALID_PARAMS, "expected params.session_id: openenv/session/create makes one")
            if call.method == "openenv/session/close":
                await self._sessions.discard(name)
                return {"jsonrpc": "2.0", "id": call.id, "result": {"session_id": name, "closed": True}}
            return await self._within(self._sessions.find(name), call)
        except AtCapacity as full:
            counts = {"active_sessions": full.active, "max_sessions": full.limit}
            return _failure(call.id, SERVER_ERROR, str(full), **counts)
        except UnknownSession as error:
            return _failure(call.id, INVALID_PARAMS, str(error))

    async def _within(self, session: Session, call: Call) -> dict[str, Any]:
        # In a task of its own, which the session cancels when its socket goes away.
        task = asyncio.create_task(answer_rpc(session, call.model_dump()))
        await asyncio.wait([task])
        if task.cancelled():
            return _failure(call.id, SERVER_ERROR, "the session ended before the call did")
        return task.result()
