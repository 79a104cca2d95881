"""The token, on HTTP and on WebSockets, with and without the extension for a real 401."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from agent_env.errors import InputError
from agent_env.openenv.auth import RequireToken, Token

SECRET = "s3cret-token"


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "let in"})


async def asked(scope: dict[str, Any]) -> list[Message]:
    """What the middleware sends in answer to `scope`."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read before the token is checked")

    await RequireToken(inner, Token(SECRET))({"path": "/", "headers": [], **scope}, receive, send)
    return sent


def bearing(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", value.encode("latin-1")) for value in values]


LET_IN = [{"type": "let in"}]


@pytest.mark.parametrize("value", [f"Bearer {SECRET}", f"bearer {SECRET}", f"Bearer   {SECRET} "])
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_the_token_opens(kind: str, value: str) -> None:
    assert await asked({"type": kind, "headers": bearing(value)}) == LET_IN


WRONG = [
    [],
    ["Bearer"],
    ["Bearer "],
    [f"Bearer {SECRET}x"],
    [f"Bearer {SECRET[:-1]}"],
    [f"Basic {SECRET}"],
    [SECRET],
    [f"Bearer {SECRET}\xff"],
    [f"Bearer {SECRET}", "Bearer other"],
]


@pytest.mark.parametrize("values", WRONG)
async def test_anything_else_is_a_401_over_http(values: list[str]) -> None:
    start, body = await asked({"type": "http", "headers": bearing(*values)})
    assert start["status"] == 401
    assert (b"www-authenticate", b"Bearer") in start["headers"]
    assert "Authorization: Bearer" in json.loads(body["body"])["detail"]


@pytest.mark.parametrize("values", WRONG)
async def test_anything_else_is_a_401_before_the_websocket_opens(values: list[str]) -> None:
    scope = {"type": "websocket", "extensions": {"websocket.http.response": {}}, "headers": bearing(*values)}
    start, body = await asked(scope)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert body["type"] == "websocket.http.response.body"


async def test_without_the_extension_the_websocket_is_closed_before_it_opens() -> None:
    (close,) = await asked({"type": "websocket"})
    assert close["type"] == "websocket.close"


async def test_only_the_health_check_over_http_is_open_to_all() -> None:
    assert await asked({"type": "http", "path": "/health"}) == LET_IN
    for path in ("/health/", "/healthy", "//health", "/", "/metadata"):
        assert (await asked({"type": "http", "path": path}))[0]["status"] == 401
    assert (await asked({"type": "websocket", "path": "/health"}))[0]["type"] == "websocket.close"


async def test_the_lifespan_needs_no_token() -> None:
    assert await asked({"type": "lifespan"}) == LET_IN


def test_the_token_is_kept_nowhere() -> None:
    token = Token(SECRET)
    middleware = RequireToken(inner, token)
    shown = f"{token!r} {token} {vars(token)!r} {middleware!r} {vars(middleware)!r}"
    assert SECRET not in shown


@pytest.mark.parametrize("token", ["", "with space", "tab\t", "line\n", "é", "\x7f"])
def test_a_token_that_no_header_carries_is_refused(token: str) -> None:
    with pytest.raises(InputError):
        Token(token)
