"""One WebSocket to a task server: its handshake, and one answer per request, each within a deadline.

OpenEnv's frames carry no request ids: an answer belongs to a request by its order alone. Hence a socket that missed an
answer (a timeout, a cancelled caller) is aborted, never used again: a late answer would be taken for the next one's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus, ProxyError

from agent_env.errors import (
    CallTimedOut,
    EpisodeFailed,
    NotATaskServer,
    ServerAtCapacity,
    ServerUnreachable,
    SessionError,
    SessionLost,
    TokenRefused,
)
from agent_env.training import tls
from agent_env.training.shared import Shared

CONCURRENT_HANDSHAKES = 32
"""Handshakes a process has in flight on one event loop: a batch of rollouts should not overrun the listen queue."""

CLOSE_SECONDS = 2.0
"""How long a peer has to answer our close frame before the socket is aborted."""

GOING_AWAY = frozenset({1001, 1006, 1012, 1013})
"""Close codes of a server that stops, restarts or was killed (1006: no close frame came at all)."""

Json = dict[str, Any]

_log = logging.getLogger(f"{__name__}.socket")
_log.setLevel(logging.INFO)  # at DEBUG `websockets` writes out each handshake's headers, the token among them

_handshakes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _handshake_slot() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    return _handshakes.setdefault(loop, asyncio.Semaphore(CONCURRENT_HANDSHAKES))


class Socket:
    """An open WebSocket to a task server, used by one caller at a time (see `sessions.Session`)."""

    def __init__(self, connection: ClientConnection, shared: Shared) -> None:
        self._connection = connection
        self._shared = shared

    @classmethod
    async def open(cls, shared: Shared, deadline: float) -> Socket:
        """Connect and shake hands.

        Args:
            deadline: on `time.monotonic`'s clock; the handshake also has at most ``shared.connect_timeout`` seconds.

        Raises:
            ServerUnreachable: nothing answers, or it went away during the handshake, or a gateway stands in for it.
            TokenRefused: HTTP 401 or 403.
            NotATaskServer: something answers, but not with a WebSocket at ``/ws``.
            ServerAtCapacity: HTTP 429.
            InputError: the token cannot be had.
        """
        headers = shared.headers
        slot = _handshake_slot()
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await slot.acquire()
        except TimeoutError:
            raise ServerUnreachable(f"{shared.url}: no handshake could be started before the deadline") from None
        seconds = min(shared.connect_timeout, deadline - time.monotonic())
        try:
            with _handshake_errors(shared, seconds):
                connection = await connect(
                    shared.socket_url,
                    additional_headers=headers,
                    compression=None,
                    proxy=None if shared.loopback else True,
                    open_timeout=seconds,
                    # Pings keep gateways from closing a session whose model is thinking. A missing pong ends nothing:
                    # a server busy for longer than any ping may wait is not dead, and each answer has a deadline.
                    ping_interval=20,
                    ping_timeout=None,
                    close_timeout=CLOSE_SECONDS,
                    max_size=shared.max_message_bytes,
                    logger=_log,
                    ssl=tls.context() if shared.socket_url.startswith("wss:") else None,
                )
        finally:
            slot.release()
        return cls(connection, shared)

    async def exchange(self, request: Json, *, what: str, seconds: float, opening: bool = False) -> Json:
        """Send one request and return the ``data`` of its observation frame. Whatever goes wrong, the socket is over.

        Args:
            request: JSON-able; never sent twice.
            what: the request in words, for the message of an error.
            seconds: until its answer must be there.
            opening: whether this is the session's first request. Until that is answered no episode exists, so a server
                that goes away then is one to wait for.

        Raises:
            CallTimedOut: no answer in time.
            SessionLost: the socket closed, or an answer came that belongs to no request.
            ServerUnreachable: `opening`, and the server went away.
            ServerAtCapacity: `opening`, and the server has no session to give.
            EpisodeFailed, NotATaskServer: the server answered with an error frame.
        """
        text = json.dumps(request, separators=(",", ":"))
        try:
            async with asyncio.timeout(seconds):
                # A server that closed at once may have said why: what it sent is read even if nothing can be sent.
                with contextlib.suppress(ConnectionClosed):
                    await self._connection.send(text)
                answer = await self._connection.recv()
            return _observation(answer, what, opening)
        except TimeoutError:
            self.abort()
            raise CallTimedOut(f"{what}: no answer in {seconds:g} s") from None
        except ConnectionClosed as closed:
            self.abort()
            raise self._lost(what, closed, opening) from closed
        except BaseException:
            self.abort()
            raise

    async def closed(self) -> str:
        """Wait until the connection is over, whichever end closed it; says how."""
        await self._connection.wait_closed()
        return str(self._connection.protocol.close_exc)

    async def close(self) -> None:
        """Say goodbye, and wait `CLOSE_SECONDS` at most for the peer to agree."""
        try:
            await self._connection.close()
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once, without a word: the server sees it and frees the session."""
        self._connection.transport.abort()

    def _lost(self, what: str, closed: ConnectionClosed, opening: bool) -> SessionError:
        if closed.sent is not None and closed.sent.code == 1009 and not closed.rcvd_then_sent:
            limit = self._shared.max_message_bytes
            return SessionLost(f"{what}: the answer is over max_message_bytes ({limit}); answer less, or raise it")
        code = 1006 if closed.rcvd is None else closed.rcvd.code
        if opening and code in GOING_AWAY:
            return ServerUnreachable(f"{what}: the server went away before it answered ({closed})")
        return SessionLost(f"{what}: {closed}")


@contextlib.contextmanager
def _handshake_errors(shared: Shared, seconds: float) -> Iterator[None]:
    url = shared.url
    try:
        yield
    except TimeoutError as error:
        raise ServerUnreachable(f"{url}: no handshake in {seconds:g} s") from error
    except ssl.SSLError as error:
        raise NotATaskServer(f"{url}: {tls.failure(error)}") from error
    except OSError as error:
        raise ServerUnreachable(f"{url}: {error.strerror or str(error) or type(error).__name__}") from error
    except InvalidStatus as error:
        raise status_error(shared, error.response.status_code, "/ws") from error
    except ProxyError as error:
        raise ServerUnreachable(f"{url}: through the proxy: {error}") from error
    except InvalidMessage as error:
        # Without a cause in the connection itself, the bytes that came were no HTTP.
        if isinstance(error.__cause__, EOFError | OSError):
            raise ServerUnreachable(f"{url}: the connection was dropped during the handshake") from error
        raise NotATaskServer(f"{url}: answers, but not in HTTP ({error.__cause__ or error})") from error
    except InvalidHandshake as error:
        raise NotATaskServer(f"{url}: /ws opens no WebSocket ({error})") from error


def status_error(shared: Shared, status: int, path: str) -> SessionError:
    """What an HTTP status other than success says, of a handshake or a request."""
    url = shared.url
    if status in (401, 403):
        if not shared.token_source:
            what = "the server asks for a token; say where it is (--token-var or --token-file)"
            return TokenRefused(f"{url}: HTTP {status}: {what}")
        return TokenRefused(f"{url}: HTTP {status}: the server refuses the token in {shared.token_source}")
    if status == 429:
        return ServerAtCapacity(f"{url}: HTTP 429 at {path}: too many requests at once")
    if status >= 500 and status != 501:
        return ServerUnreachable(f"{url}: HTTP {status} at {path}: the server, or the gateway before it, is not ready")
    return NotATaskServer(f"{url}: HTTP {status} at {path}: not an OpenEnv 0.9+ task server")


def _observation(answer: str | bytes, what: str, opening: bool) -> Json:
    """The ``data`` of an observation frame; every other frame is an error."""
    try:
        frame = json.loads(answer) if isinstance(answer, str) else None
    except (ValueError, RecursionError):
        frame = None
    kind = frame.get("type") if isinstance(frame, dict) else None
    data = frame.get("data") if isinstance(frame, dict) else None
    if kind == "observation" and isinstance(data, dict):
        return data
    if kind == "error" and isinstance(data, dict):
        raise _error_frame(data, what, opening)
    shown = answer[:80] if isinstance(answer, str) else f"{len(answer)} bytes"
    problem = f"{what}: answered with no frame of OpenEnv's: {shown!r}"
    raise NotATaskServer(problem) if opening else SessionLost(problem)


def _error_frame(data: Json, what: str, opening: bool) -> SessionError:
    code, message = data.get("code"), data.get("message") or "no reason given"
    if code == "CAPACITY_REACHED" and opening:
        return ServerAtCapacity(str(message))
    if code in ("VALIDATION_ERROR", "UNKNOWN_TYPE"):
        errors = f": {data['errors']}" if data.get("errors") else ""
        return NotATaskServer(f"{what}: the server does not take this message ({message}{errors})")
    return EpisodeFailed(f"{what}: {message} ({code})")
