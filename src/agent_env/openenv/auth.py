"""The server's token: every request and WebSocket but ``/health`` must present it.

A WebSocket without it is answered with a real HTTP 401 before it opens (ASGI's ``websocket.http.response`` extension),
so a client can tell a refused token from a server that is down. Only a digest of the token is kept: it can appear in no
log, no repr and no traceback of ours, and comparing digests takes the same time for every wrong token.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_env.errors import InputError

_REFUSAL = msgspec.json.encode(
    {"detail": "this server asks for a token: send the header 'Authorization: Bearer <token>' with the right one"}
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_REFUSAL)).encode()),
    (b"www-authenticate", b"Bearer"),
]


class Token:
    """What a request must present, known by its digest alone.

    Raises:
        InputError: an empty token, or one that no header can carry.
    """

    def __init__(self, token: str) -> None:
        if not token:
            raise InputError("the token is empty: give one, or None for a server open to all")
        if not all("!" <= character <= "~" for character in token):
            raise InputError("the token holds a character other than visible ASCII, which an HTTP header cannot carry")
        self._digest = hashlib.sha256(token.encode("ascii")).digest()

    def __repr__(self) -> str:
        return "Token(…)"

    def admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether exactly one ``Authorization`` header is there and bears the token."""
        presented = [value for name, value in headers if name == b"authorization"]
        if len(presented) != 1:
            return False
        scheme, _, token = presented[0].partition(b" ")
        if scheme.lower() != b"bearer":
            return False
        return hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._digest)


class RequireToken:
    """ASGI middleware that lets only bearers of the token through, on HTTP and WebSocket alike.

    Args:
        app: what is protected.
        open_paths: what anyone may ask for over HTTP.
    """

    def __init__(self, app: ASGIApp, token: Token, open_paths: tuple[str, ...] = ("/health",)) -> None:
        self._app, self._token = app, token
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        is_open = kind == "http" and scope["path"] in self._open_paths
        if is_open or kind not in ("http", "websocket") or self._token.admits(scope["headers"]):
            await self._app(scope, receive, send)
        elif kind == "http":
            await send({"type": "http.response.start", "status": 401, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": _REFUSAL})
        elif "websocket.http.response" in scope.get("extensions", {}):
            await send({"type": "websocket.http.response.start", "status": 401, "headers": _HEADERS})
            await send({"type": "websocket.http.response.body", "body": _REFUSAL})
        else:
            # A server without the extension can only refuse a handshake with 403, which this becomes.
            await send({"type": "websocket.close", "code": 1008, "reason": "token refused"})
