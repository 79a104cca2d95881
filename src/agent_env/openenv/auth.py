"""The server's tokens: every request and WebSocket but ``/health`` must present one of them.

A WebSocket without it is answered with a real HTTP 401 before it opens (ASGI's ``websocket.http.response`` extension),
so a client can tell a refused token from a server that is down. Only digests of the tokens are kept: they can appear in
no log, no repr and no traceback of ours, and comparing digests takes the same time for every wrong token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import time
from collections.abc import Callable, Iterable

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_env.errors import InputError
from agent_env.openenv.holders import HELD_REQUEST, Holder, TooManyRequests
from agent_env.tokens import TokenSource, check_token

logger = logging.getLogger(__name__)

HOLDER = "agent_env.holder"
"""The key in an ASGI scope of who asks, a `Holder`; absent on a server without tokens."""
LOOK_AGAIN = 1.0
"""Seconds after which the file of tokens is looked at again."""

_REFUSAL = "this server asks for a token: send the header 'Authorization: Bearer <token>' with the right one"
_NO_PAGES = "a server without a token answers no page in a browser (the header Origin says that one asks)"

Headers = list[tuple[bytes, bytes]]


class Tokens:
    """The tokens that are valid now, known by their digests alone, and the `Holder` of each.

    A file of tokens is read again when it has changed. One that cannot be used then leaves the tokens as they were,
    and is logged.

    Args:
        tokens: one token, or where they are.
        holder: makes what is counted of a token; is given what brings its ``revoked`` up to date.

    Raises:
        InputError: there is no token, or one that no header can carry.
    """

    def __init__(self, tokens: str | TokenSource, holder: Callable[[Callable[[], None]], Holder]) -> None:
        self._make = holder
        self._source = tokens if isinstance(tokens, TokenSource) else None
        self._holders: dict[bytes, Holder] = {}
        self._seen, self._looked = self._signature(), time.monotonic()
        if isinstance(tokens, str):
            check_token(tokens, "the token")
            self._admit((tokens,))
        else:
            self._admit(tokens.read())

    def __repr__(self) -> str:
        return f"Tokens({len(self._holders)})"

    def holder(self, headers: Iterable[tuple[bytes, bytes]]) -> Holder | None:
        """Whose token a request presents: None unless it has exactly one ``Authorization`` header, with a valid one."""
        presented = [value for name, value in headers if name == b"authorization"]
        if len(presented) != 1:
            return None
        scheme, _, token = presented[0].partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        self.look()
        digest, found = hashlib.sha256(token.strip()).digest(), None
        for known, holder in self._holders.items():  # all of them: the time tells nothing of which one matched
            if hmac.compare_digest(digest, known):
                found = holder
        return found

    def look(self) -> None:
        """Read the file of tokens again if it has changed; looks at it once in `LOOK_AGAIN` seconds."""
        now = time.monotonic()
        if self._source is None or self._source.file is None or now - self._looked < LOOK_AGAIN:
            return
        self._looked = now
        if (signature := self._signature()) == self._seen:
            return
        self._seen = signature
        try:
            tokens = self._source.read()
        except InputError as error:
            logger.warning("%s; the tokens of before stay valid", error)
            return
        self._admit(tokens)
        logger.warning("%s has changed: tokens valid now: %d", self._source, len(self._holders))

    def _admit(self, tokens: Iterable[str]) -> None:
        before = self._holders
        digests = [hashlib.sha256(token.encode("ascii")).digest() for token in tokens]
        if not digests:
            raise InputError("no token is given, and no place where one is: give None for a server open to all")
        self._holders = {digest: before.get(digest) or self._make(self.look) for digest in digests}
        for digest in before.keys() - self._holders.keys():
            before[digest].revoked = True

    def _signature(self) -> tuple[int, ...] | None:
        """What changes when the file does; None without one."""
        if self._source is None or self._source.file is None:
            return None
        try:
            found = os.stat(self._source.file)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class RequireToken:
    """ASGI middleware that lets only bearers of a token through, each at its pace, on HTTP and WebSocket alike.

    Args:
        app: what is protected.
        open_paths: what anyone may ask for over HTTP.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, open_paths: tuple[str, ...] = ("/health",)) -> None:
        self._app, self._tokens = app, tokens
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket") or (kind == "http" and scope["path"] in self._open_paths):
            await self._app(scope, receive, send)
            return
        holder = self._tokens.holder(scope["headers"])
        if holder is None:
            await _refuse(scope, send, 401, _REFUSAL, [(b"www-authenticate", b"Bearer")])
            return
        try:
            await holder.turn(HELD_REQUEST)
        except TooManyRequests as error:
            again = str(math.ceil(error.wait)).encode()
            await _refuse(scope, send, 429, str(error), [(b"retry-after", again)])
            return
        await self._app({**scope, HOLDER: holder}, receive, send)


class RefusePages:
    """ASGI middleware for a server without tokens: refuses what a page in a browser sends.

    A page of any site may open a WebSocket to a server on its visitor's own machine, and post to it. Browsers say in
    the header ``Origin`` that a page asks; no other client of ours or OpenEnv's has one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and any(name == b"origin" for name, _ in scope["headers"]):
            await _refuse(scope, send, 403, _NO_PAGES, [])
        else:
            await self._app(scope, receive, send)


async def _refuse(scope: Scope, send: Send, status: int, detail: str, headers: Headers) -> None:
    body = msgspec.json.encode({"detail": detail})
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        # A server without the extension can only refuse a handshake with 403, which this becomes.
        await send({"type": "websocket.close", "code": 1008, "reason": detail[:120]})
        return
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    await send({"type": f"{kind}.start", "status": status, "headers": about})
    await send({"type": f"{kind}.body", "body": body})
