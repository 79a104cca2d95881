"""uvicorn's HTTP protocol on httptools, with an end to the head of a request: in bytes, and in seconds.

httptools keeps as many headers as a client sends, and uvicorn waits for the rest of them as long as it takes: who has
no token could fill the memory and the descriptors of a server. uvicorn's other HTTP protocol, on h11, has a limit of
bytes. The names this leans on are uvicorn's own and not of its public interface; tests check it on real sockets.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024
"""Bytes from which on a head that is not complete is refused; as h11's."""
HEAD_SECONDS = 30.0
"""Seconds for a head to be complete."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head = True
    _head = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._complete()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        self._complete()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self._refuse(_TOO_LARGE)

    def _begin(self) -> None:
        self._in_head, self._head = True, 0
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._refuse, _TOO_LATE)

    def _complete(self) -> None:
        self._in_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, answer: bytes) -> None:
        self._complete()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
