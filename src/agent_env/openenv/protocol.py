"""uvicorn's WebSocket protocol, with the two ends of a connection that it leaves open.

* A message over the size limit is refused with close code 1009 and a reason. uvicorn then closes the socket at once,
  and since the rest of the message is still coming, the client is sent a reset that can overtake the reason. Here the
  socket is shut for writing only, and what comes is thrown away until the client has read the reason.
* A peer that answers no ping is given up with 1011. uvicorn waits then until it has taken what was written to it, which
  a frozen peer never does. Here the connection is cut.

The names this leans on are uvicorn's own and not of its public interface; a test checks both ends on real sockets.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LINGER = 5.0
"""Seconds for a refused client to read why."""
ABORT_AFTER = 0.5
"""Seconds for a peer that answered no ping to take the close frame."""


class ServerProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    _refused = False

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        # Too long a message, text that is not UTF-8, a frame against the protocol.
        close = self.conn.close_sent
        assert close is not None
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self._refused = self.close_sent = True
        self.stop_keepalive()
        self.transport.write(b"".join(self.conn.data_to_send()))
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # A timer here also keeps uvicorn from closing the transport when the application returns.
        self.close_timer = self.loop.call_later(LINGER, self.transport.abort)

    def send_receive_event_to_app(self) -> None:
        if self._refused:
            return
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(ABORT_AFTER, self._cut)

    def _cut(self) -> None:
        if not self.disconnected:
            self.transport.abort()
