"""``/ws``: one socket, one session.

Two tasks a socket: one reads all the time, also while a step runs, so that a client which goes away is noticed at once
and its step is cancelled; the other answers, one request after another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from agent_env.openenv import messages
from agent_env.openenv.admission import AtCapacity
from agent_env.openenv.sessions import Sessions, UnknownSession

MAX_PIPELINED = 64
"""Requests that a client may have sent without waiting for answers."""
SEND_TIMEOUT = 30.0
"""Seconds for a client to make room for an answer. With the server's own keepalive a frozen one is gone before that."""

Frame = str | bytes | None


class Inbox:
    """Frames that have come and not been answered, bounded in number and in size."""

    def __init__(self, max_size: int) -> None:
        self._frames: deque[Frame] = deque()
        self._size, self._max_size = 0, max_size
        self._came = asyncio.Event()

    def put(self, frame: Frame) -> bool:
        """Add a frame; False if the client is too far ahead of its answers. One frame always fits."""
        size = 0 if frame is None else len(frame)
        if self._frames and (len(self._frames) >= MAX_PIPELINED or self._size + size > self._max_size):
            return False
        self._frames.append(frame)
        self._size += size
        self._came.set()
        return True

    async def get(self) -> Frame:
        """The oldest frame."""
        while not self._frames:
            self._came.clear()
            await self._came.wait()
        frame = self._frames.popleft()
        self._size -= 0 if frame is None else len(frame)
        return frame


class WebSocketEndpoint:
    """The ASGI application behind ``/ws``."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        wanted = parse_qs(scope["query_string"].decode("latin-1")).get("session_id", [""])[-1]
        inbox = Inbox(self._sessions.max_message)
        player = asyncio.create_task(self._play(inbox, send, wanted))
        try:
            while True:
                event = await receive()
                if event["type"] == "websocket.disconnect":
                    return
                frame: Frame = event.get("text")
                if not inbox.put(event.get("bytes") if frame is None else frame):
                    player.cancel()
                    await _end(send, 1008, f"more than {MAX_PIPELINED} requests, or too many bytes, without waiting")
                    return
        finally:
            # Whatever the end was: the step that runs is cancelled, and the slot is free when the player is done.
            player.cancel()
            await asyncio.wait([player])

    async def _play(self, inbox: Inbox, send: Send, wanted: str) -> None:
        """Answer the frames of `inbox` until the client says close."""
        try:
            session, slot = self._sessions.attach(wanted) if wanted else await self._sessions.open()
        except AtCapacity as full:
            counts = {"active_sessions": full.active, "max_sessions": full.limit}
            await _send(send, messages.error("CAPACITY_REACHED", str(full), **counts))
            await _end(send, 1000, "")
            return
        except UnknownSession as error:
            await _send(send, messages.error("SESSION_ERROR", str(error)))
            await _end(send, 1000, "")
            return
        try:
            while True:
                frame = await inbox.get()
                try:
                    request = messages.parse(frame)
                except messages.Refused as refused:
                    await _send(send, refused.frame)
                    continue
                if isinstance(request, messages.Close):
                    break
                await _send(send, await session.answer(request))
        finally:
            await self._sessions.end(session, slot)
        await _end(send, 1000, "")


async def _send(send: Send, text: str) -> None:
    async with asyncio.timeout(SEND_TIMEOUT):
        await send({"type": "websocket.send", "text": text})


async def _end(send: Send, code: int, reason: str) -> None:
    # The client may have gone first, which is all the same now.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "websocket.close", "code": code, "reason": reason})
