"""The server as an ASGI application: OpenEnv's protocol, with what training needs of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from agent_env.bundle import Bundle
from agent_env.openenv import schemas
from agent_env.openenv.admission import Admission
from agent_env.openenv.auth import RefusePages, RequireToken, Tokens
from agent_env.openenv.catalogue import Catalogue, RewardChoice
from agent_env.openenv.holders import Holder, Pace
from agent_env.openenv.mcp import McpEndpoint
from agent_env.openenv.openapi import openapi
from agent_env.openenv.sessions import Sessions
from agent_env.openenv.task_api import TaskApi, json_response
from agent_env.openenv.websocket import WebSocketEndpoint
from agent_env.tokens import TokenSource

MAX_MESSAGE = 16 * 1024 * 1024
TOKEN_REQUESTS = 1000.0
TOKEN_HINT = "It is this token's limit: end some of its sessions, or start the server with a larger --token-sessions."


def build_app(
    bundle: Bundle | Mapping[str, Bundle],
    *,
    reward: RewardChoice | None = None,
    token: str | TokenSource | None = None,
    max_sessions: int = 64,
    admission_timeout: float = 30.0,
    admission_queue: int = 1024,
    max_message_bytes: int = MAX_MESSAGE,
    token_sessions: int | None = None,
    token_requests: float = TOKEN_REQUESTS,
) -> Starlette:
    """The task server for a bundle, or for several: a mapping of split to bundle.

    `agent_env.openenv.serve` runs it with the settings it is meant for; under another ASGI server, set that server's
    own limit of message size and its keepalive.

    Args:
        reward: in place of the bundle's: a step id, ``mean``, ``sum``, or a function of an episode's scores.
        token: asked of every request but ``/health`` as ``Authorization: Bearer …``; None leaves the server open. A
            `TokenSource` that is a file may hold several, and is read again when it changes.
        max_sessions: sessions at once.
        admission_timeout: seconds that a newcomer waits for a session before it is told CAPACITY_REACHED.
        admission_queue: newcomers that may wait at once.
        max_message_bytes: the longest message, either way.
        token_sessions: sessions at once of one token; None for no other limit than `max_sessions`.
        token_requests: a second of one token, frames of sessions among them, at least 1.

    Raises:
        InputError: a token that no header can carry, a mapping or reward that cannot be used.
    """
    catalogue = Catalogue(bundle, reward=reward, capacity=max_sessions)
    admission = Admission(max_sessions, queue_limit=admission_queue, timeout=admission_timeout)
    sessions = Sessions(catalogue, admission, max_message_bytes)

    def holder(look: Callable[[], None]) -> Holder:
        own = None
        if token_sessions is not None:
            own = Admission(token_sessions, queue_limit=admission_queue, timeout=admission_timeout, hint=TOKEN_HINT)
        return Holder(own, Pace(token_requests), look)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await sessions.start()
            yield
        finally:
            await sessions.shutdown()

    async def metadata(request: Request) -> Response:
        return json_response(schemas.metadata(catalogue.name, catalogue.description))

    async def described(request: Request) -> Response:
        return json_response(openapi(catalogue, asks_for_token=token is not None))

    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/metadata", metadata),
            Route("/schema", _schema),
            Route("/openapi.json", described),
            Route("/mcp", McpEndpoint(sessions).answer, methods=["POST"]),
            WebSocketRoute("/ws", WebSocketEndpoint(sessions)),
            *TaskApi(catalogue).routes,
        ],
        middleware=[Middleware(RefusePages) if token is None else Middleware(RequireToken, Tokens(token, holder))],
        exception_handlers={HTTPException: _refusal},
        lifespan=lifespan,
    )
    app.state.sessions, app.state.asks_for_token = sessions, token is not None
    return app


async def _health(request: Request) -> Response:
    return json_response({"status": "healthy"})


async def _schema(request: Request) -> Response:
    return json_response(schemas.schema())


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = json_response({"detail": error.detail}, error.status_code)
    response.headers.update(error.headers or {})  # of what is allowed, for a method that is not
    return response
