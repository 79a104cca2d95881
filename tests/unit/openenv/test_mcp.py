"""JSON-RPC in frames and over HTTP, as OpenEnv's MCPToolClient uses both at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_env.bundle import load_bundle
from agent_env.openenv import build_app, messages, sessions
from agent_env.openenv.sessions import Sessions
from support.trials import write_trials


class Rpc:
    """Speaks JSON-RPC over ``POST /mcp``, in process."""

    def __init__(self, http: httpx.AsyncClient, server: Sessions) -> None:
        self.http, self.server = http, server

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
        answer: dict[str, Any] = (await self.http.post("/mcp", json=body)).json()
        return answer

    async def made(self) -> str:
        """A session's id."""
        return str((await self.ask("openenv/session/create"))["result"]["session_id"])


@pytest.fixture
async def rpc(tmp_path: Path) -> AsyncIterator[Rpc]:
    app = build_app(load_bundle(write_trials(tmp_path)), max_sessions=2, admission_timeout=0.1)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as http,
    ):
        yield Rpc(http, app.state.sessions)


async def reset(rpc: Rpc, name: str) -> None:
    session, _ = rpc.server.attach(name)
    await session.observe(messages.Reset({"split": "train", "index": 0}))


async def test_tools_over_http_in_the_session_of_a_socket(rpc: Rpc) -> None:
    name = await rpc.made()
    await reset(rpc, name)
    listed = await rpc.ask("tools/list", session_id=name)
    assert listed["id"] == 1
    assert listed["result"]["tools"][0]["name"] == "echo"
    assert listed["result"]["tools"][0]["inputSchema"]["required"] == ["text"]
    called = (await rpc.ask("tools/call", session_id=name, name="echo", arguments={"text": "a"}))["result"]
    assert (called["data"], called["is_error"], called["done"], called["reward"]) == ("a", False, False, None)
    ended = (await rpc.ask("tools/call", session_id=name, name="end_turn", arguments={"response": "0.5"}))["result"]
    assert ended["data"] == {"done": True, "reward": 0.5, "scores": {"first": 0.5}}


async def test_what_cannot_be_answered_is_a_json_rpc_error(rpc: Rpc) -> None:
    name = await rpc.made()
    assert (await rpc.ask("tools/list", session_id=name))["error"]["message"] == "reset first: no episode is open"
    await reset(rpc, name)
    for params, code, words in [
        ({"name": "ecko", "arguments": {}}, -32602, "no tool 'ecko'"),
        ({"name": "echo", "arguments": {}}, -32602, "text: missing"),
        ({"name": "echo", "arguments": []}, -32602, "params.arguments, an object"),
        ({"arguments": {}}, -32602, "params.name, a string"),
        ({"name": "fail", "arguments": {}}, -32603, "the stove is on fire"),
    ]:
        error = (await rpc.ask("tools/call", session_id=name, **params))["error"]
        assert error["code"] == code
        assert words in error["message"]
    assert (await rpc.ask("tools/sing", session_id=name))["error"]["code"] == -32601
    assert (await rpc.ask("tools/list"))["error"]["code"] == -32602
    assert (await rpc.ask("tools/list", session_id="nobody"))["error"]["message"] == "Unknown session_id: nobody"


@pytest.mark.parametrize("body", [{}, [], {"jsonrpc": "1.0", "method": "a"}, {"jsonrpc": "2.0", "method": 1}], ids=str)
async def test_what_is_no_json_rpc(rpc: Rpc, body: Any) -> None:
    assert (await rpc.http.post("/mcp", json=body)).json()["error"]["code"] == -32600


async def test_a_session_made_over_http_holds_a_slot_until_it_is_closed(rpc: Rpc) -> None:
    names = [await rpc.made(), await rpc.made()]
    refused = (await rpc.ask("openenv/session/create"))["error"]
    assert refused["message"].startswith("Server at capacity: 2/2")
    assert refused["data"] == {"active_sessions": 2, "max_sessions": 2}
    closed = await rpc.ask("openenv/session/close", session_id=names[0])
    assert closed["result"] == {"session_id": names[0], "closed": True}
    assert (await rpc.ask("openenv/session/close", session_id=names[0]))["error"]["code"] == -32602
    assert await rpc.made()


async def test_a_session_that_gets_no_socket_gives_its_slot_back(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LEASE", 0.05)
    name = await rpc.made()
    await asyncio.sleep(0.3)
    assert rpc.server.admission.active == 0
    with pytest.raises(sessions.UnknownSession):
        rpc.server.attach(name)


async def test_a_session_has_one_socket(rpc: Rpc) -> None:
    name = await rpc.made()
    rpc.server.attach(name)
    with pytest.raises(sessions.UnknownSession, match="already has an attached WebSocket"):
        rpc.server.attach(name)
    assert (await rpc.ask("openenv/session/close", session_id=name))["error"]["code"] == -32602


async def test_a_call_over_http_ends_with_the_sessions_socket(rpc: Rpc) -> None:
    name = await rpc.made()
    await reset(rpc, name)
    call = asyncio.create_task(rpc.ask("tools/call", session_id=name, name="nap", arguments={"seconds": 60}))
    await asyncio.sleep(0.1)
    made = rpc.server._made[name]
    await rpc.server.end(made.session, made.slot)
    assert (await call)["error"]["message"] == "the session ended before the call did"
    assert rpc.server.admission.active == 0
