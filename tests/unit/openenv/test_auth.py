"""Tokens, on HTTP and on WebSockets, with and without the extension for a real 401."""

from __future__ import annotations

import hmac
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from agent_env.errors import InputError
from agent_env.openenv import auth
from agent_env.openenv.auth import HOLDER, RefusePages, RequireToken, Tokens
from agent_env.openenv.holders import Holder, Pace
from agent_env.tokens import TokenSource

SECRET = "s3cret-token"


def holder(look: Callable[[], None], rate: float = 1000) -> Holder:
    return Holder(None, Pace(rate), look)


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "let in"})


async def asked(scope: dict[str, Any], middleware: RequireToken | None = None) -> list[Message]:
    """What the middleware sends in answer to `scope`."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read before the token is checked")

    middleware = middleware or RequireToken(inner, Tokens(SECRET, holder))
    await middleware({"path": "/", "headers": [], **scope}, receive, send)
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


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_without_tokens_a_page_in_a_browser_is_refused_and_all_else_let_in(kind: str) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    scope = {"type": kind, "path": "/ws", "headers": [(b"host", b"127.0.0.1:8000")], "extensions": {}}
    await RefusePages(inner)(scope, receive, send)
    assert sent == LET_IN
    sent.clear()
    scope["headers"] = [(b"host", b"evil.example"), (b"origin", b"http://evil.example")]
    scope["extensions"] = {"websocket.http.response": {}}
    await RefusePages(inner)(scope, receive, send)
    assert sent[0]["status"] == 403
    assert b"no page in a browser" in sent[1]["body"]


async def test_the_lifespan_needs_no_token() -> None:
    assert await asked({"type": "lifespan"}) == LET_IN


def test_the_token_is_kept_nowhere() -> None:
    tokens = Tokens(SECRET, holder)
    middleware = RequireToken(inner, tokens)
    shown = f"{tokens!r} {tokens} {vars(tokens)!r} {middleware!r} {vars(middleware)!r}"
    assert SECRET not in shown


@pytest.mark.parametrize("token", ["", "with space", "tab\t", "line\n", "é", "\x7f", TokenSource()])
def test_a_token_that_no_header_carries_is_refused(token: str | TokenSource) -> None:
    with pytest.raises(InputError):
        Tokens(token, holder)


def test_every_digest_is_compared_whichever_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokens"
    file.write_text("first\nsecond\nthird\n")
    tokens = Tokens(TokenSource(file=str(file)), holder)
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac_compare(one, other)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(auth.hmac, "compare_digest", compare)
    for token, valid in (("first", True), ("third", True), ("wrong", False)):
        compared.clear()
        assert (tokens.holder(bearing(f"Bearer {token}")) is not None) is valid
        assert len(compared) == 3
        assert {len(part) for pair in compared for part in pair} == {32}


async def test_who_asks_is_told_to_the_application() -> None:
    seen: list[Holder] = []

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope[HOLDER])

    middleware = RequireToken(look, Tokens(SECRET, holder))
    for _ in range(2):
        await asked({"type": "http", "headers": bearing(f"Bearer {SECRET}")}, middleware)
    assert seen[0] is seen[1]


async def test_too_many_requests_are_a_429_that_says_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "HELD_REQUEST", 0.0)
    middleware = RequireToken(inner, Tokens(SECRET, lambda look: holder(look, rate=1)))
    scope = {"type": "http", "headers": bearing(f"Bearer {SECRET}")}
    assert await asked(scope, middleware) == LET_IN
    start, body = await asked(scope, middleware)
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (429, b"1")
    assert "over 1 requests a second" in json.loads(body["body"])["detail"]
    assert "--token-requests" in json.loads(body["body"])["detail"]
    sockets = {"type": "websocket", "extensions": {"websocket.http.response": {}}}
    assert (await asked({**scope, **sockets}, middleware))[0]["status"] == 429
    # A stranger's do not count, and the health check is asked for by whoever watches the server.
    assert (await asked({"type": "http"}, middleware))[0]["status"] == 401
    assert await asked({**scope, "path": "/health"}, middleware) == LET_IN


class Rotated:
    """A file of tokens that is looked at each time."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
        self.file = tmp_path / "tokens"
        self.file.write_text(content)
        monkeypatch.setattr(auth, "LOOK_AGAIN", 0.0)
        self.tokens = Tokens(TokenSource(file=str(self.file)), holder)

    def valid(self, token: str) -> bool:
        return self.tokens.holder(bearing(f"Bearer {token}")) is not None

    def replace(self, content: str) -> None:
        """Put another file in its place, as an editor or a secret's mount does."""
        new = self.file.with_name("new")
        new.write_text(content)
        os.replace(new, self.file)


def test_a_token_is_changed_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rotated = Rotated(tmp_path, monkeypatch, "old-s3cret\n")
    old = rotated.tokens.holder(bearing("Bearer old-s3cret"))
    assert old is not None
    rotated.replace("old-s3cret\nnew-s3cret\n")
    assert rotated.valid("new-s3cret")
    # What the old token's holder has taken counts on.
    assert rotated.tokens.holder(bearing("Bearer old-s3cret")) is old
    rotated.file.write_text("new-s3cret\n")
    assert not old.is_valid()
    assert not rotated.valid("old-s3cret")
    assert rotated.valid("new-s3cret")
    assert "tokens valid now: 1" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("content", ["", "half a s3cret", None])
def test_a_file_that_cannot_be_used_leaves_the_tokens_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    rotated = Rotated(tmp_path, monkeypatch, "one\n")
    if content is None:
        rotated.file.unlink()
    else:
        rotated.replace(content)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert rotated.valid("one")
    assert caplog.text.count("the tokens of before stay valid") == 1
    assert "s3cret" not in caplog.text
    rotated.replace("two\n")
    assert rotated.valid("two")
    assert not rotated.valid("one")


def test_the_file_is_not_looked_at_for_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rotated = Rotated(tmp_path, monkeypatch, "one\n")
    monkeypatch.setattr(auth, "LOOK_AGAIN", 3600.0)
    monkeypatch.setattr(auth.os, "stat", lambda path: pytest.fail("looked"))
    assert rotated.valid("one")
