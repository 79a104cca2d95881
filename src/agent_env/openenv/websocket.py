"""``/ws``: one socket, one session.

Two tasks a socket: one reads all the time, also while a step runs, so that a client which goes away is noticed at once
and its step is cancelled; the other answers, one request after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from agent_env.openenv import messages
from agent_env.openenv.admission import AtCapacity
from agent_env.openenv.auth import HOLDER
from agent_env.openenv.holders import HELD_FRAME, Holder, TooManyRequests
from agent_env.openenv.sessions import Sessions, UnknownSession

logger = logging.getLogger(__name__)

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
        inbox, outbox = Inbox(self._sessions.max_message), Outbox(send)
        player = asyncio.create_task(self._play(inbox, outbox, wanted, scope.get(HOLDER)))
        outbox.watch(player)
        try:
            while True:
                event = await receive()
                if event["type"] == "websocket.disconnect":
                    return
                frame: Frame = event.get("text")
                if not inbox.put(event.get("bytes") if frame is None else frame):
                    player.cancel()
                    await outbox.close(1008, f"more than {MAX_PIPELINED} requests, or too many bytes, without waiting")
                    return
        finally:
            # Whatever the end was: the step that runs is cancelled, and the slot is free when the player is done.
            outbox.forget()
            player.cancel()
            await asyncio.wait([player])
            _look_at(player)

    async def _play(self, inbox: Inbox, outbox: Outbox, wanted: str, holder: Holder | None) -> None:
        """Answer the frames of `inbox` until the client says close, or its token is no longer valid."""
        try:
            session, slot = self._sessions.attach(wanted) if wanted else await self._sessions.open(holder)
        except AtCapacity as full:
            counts = {"active_sessions": full.active, "max_sessions": full.limit}
            await outbox.put(messages.error("CAPACITY_REACHED", str(full), **counts))
            await outbox.close(1000, "")
            return
        except UnknownSession as error:
            await outbox.put(messages.error("SESSION_ERROR", str(error)))
            await outbox.close(1000, "")
            return
        code, reason = 1000, ""
        try:
            while True:
                frame = await inbox.get()
                if holder is not None:
                    if not holder.is_valid():
                        code, reason = 1008, "the token is no longer valid"
                        break
                    try:
                        await holder.turn(HELD_FRAME)
                    except TooManyRequests as error:
                        await outbox.put(messages.error("CAPACITY_REACHED", str(error), retry_after=error.wait))
                        continue
                try:
                    request = messages.parse(frame)
                except messages.Refused as refused:
                    await outbox.put(refused.frame)
                    continue
                if isinstance(request, messages.Close):
                    break
                await outbox.put(await session.answer(request))
        finally:
            await self._sessions.end(session, slot)
        await outbox.close(code, reason)


def _look_at(player: asyncio.Task[None]) -> None:
    """Report an error of ours that ended a session; that its client is gone is none."""
    error = None if player.cancelled() else player.exception()
    if error is not None and not isinstance(error, OSError | WebSocketDisconnect):
        logger.error("a session ended by an error", exc_info=error)


class Outbox:
    """Sends to the client, and gives up on one that takes nothing for `SEND_TIMEOUT`.

    One timer a socket instead of one an answer: sending hardly ever waits, and this is the path of every call.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, player: asyncio.Task[None]) -> None:
        """Cancel `player` when sending takes too long."""
        loop = asyncio.get_running_loop()
        if self._since is not None and loop.time() - self._since > SEND_TIMEOUT:
            player.cancel()
        else:
            self._timer = loop.call_later(SEND_TIMEOUT / 2, self.watch, player)

    def forget(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    async def put(self, text: str) -> None:
        """Send a text frame."""
        self._since = asyncio.get_running_loop().time()
        await self._send({"type": "websocket.send", "text": text})
        self._since = None

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame. The client may have gone first, which is all the same now."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(SEND_TIMEOUT):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
