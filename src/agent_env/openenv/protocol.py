"""uvicorn's WebSocket protocol, quicker, and with three ends of a connection done properly.

* A message over the size limit is refused with close code 1009 and a reason. uvicorn then closes the socket at once,
  and since the rest of the message is still coming, the client is sent a reset that can overtake the reason. Here what
  comes is thrown away until the client is quiet, which it is once it has read the reason.
* A peer that answers no ping is given up with 1011. uvicorn waits then until it has taken what was written to it, which
  a frozen peer never does. Here the connection is cut.
* A handshake that the application answers with an HTTP response, as one without the token is, counts as complete:
  uvicorn would log an error of the application.

The names this leans on are uvicorn's own and not of its public interface; tests check all three on real sockets.
"""

from __future__ import annotations

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

QUIET = 0.25
"""Seconds of silence that mean a refused client has sent the rest of its message, and its answer to the close."""
LINGER = 5.0
"""Seconds after which a refused client is waited for no longer."""
MAX_UNREAD = 16
"""Messages that the application has not taken, from which on nothing more is read."""
ABORT_AFTER = 0.5
"""Seconds for a peer that answered no ping to take the close frame."""


class ServerProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    _refused = False
    _last_heard = 0.0

    def data_received(self, data: bytes) -> None:
        if self._refused:
            self._last_heard = self.loop.time()
        else:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        # Too long a message, text that is not UTF-8, a frame against the protocol.
        close = self.conn.close_sent
        assert close is not None
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self._refused = self.close_sent = True
        self.stop_keepalive()
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._last_heard = self.loop.time()
        self._wait_for_quiet(self._last_heard + LINGER)

    def send_receive_event_to_app(self) -> None:
        if self._refused:
            return
        if self.queue.qsize() >= MAX_UNREAD:
            super().send_receive_event_to_app()
            return
        # uvicorn stops reading after every message until the application has taken it, at the price of two system
        # calls a message; ours takes each one at once. With this set it leaves the reading on.
        was_paused, self.read_paused = self.read_paused, True
        super().send_receive_event_to_app()
        self.read_paused = was_paused

    def _wait_for_quiet(self, deadline: float) -> None:
        now = self.loop.time()
        if now >= deadline or now - self._last_heard >= QUIET:
            self.close_timer = None
            self.transport.close()
        else:
            # This being set also keeps uvicorn from closing the transport when the application returns.
            self.close_timer = self.loop.call_later(QUIET / 4, self._wait_for_quiet, deadline)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(ABORT_AFTER, self._cut)

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True

    def _cut(self) -> None:
        if not self.disconnected:
            self.transport.abort()
