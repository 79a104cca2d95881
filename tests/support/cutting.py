"""A TCP proxy before a server that cuts a client's connection at one request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal
from urllib.parse import urlsplit

Where = Literal["before it arrives", "before its answer", "in its answer"]


class Cutting:
    """Passes bytes on, until `cut_at` says where the next request's connection is cut; then again.

    Attributes:
        url: of the proxy.
        cuts: how many connections it has cut.
    """

    def __init__(self) -> None:
        self.url, self.cuts = "", 0
        self._where: Where | None = None

    def cut_at(self, where: Where) -> None:
        """Cut the connection whose client is the next to send anything."""
        self._where = where

    async def _pass(self, client: tuple[asyncio.StreamReader, asyncio.StreamWriter], host: str, port: int) -> None:
        server = await asyncio.open_connection(host, port)
        answers = asyncio.create_task(self._forward(server[0], client[1]))
        try:
            while data := await client[0].read(1 << 20):
                where, self._where = self._where, None
                if where != "before it arrives":
                    server[1].write(data)
                    await server[1].drain()
                if where is not None:
                    answers.cancel()
                    await asyncio.wait([answers])
                    if where != "before it arrives":
                        # The server has done what was asked once it answers.
                        answer = await server[0].read(1 << 20)
                        if where == "in its answer":
                            client[1].write(answer[: len(answer) // 2])
                            await client[1].drain()
                    self.cuts += 1
                    return
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            client[1].transport.abort()
            server[1].transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                writer.write(data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def cutting(url: str) -> AsyncIterator[Cutting]:
    """A proxy before the server at `url`."""
    proxy, at = Cutting(), urlsplit(url)
    assert at.hostname is not None
    assert at.port is not None
    host, port = at.hostname, at.port
    server = await asyncio.start_server(lambda *client: proxy._pass(client, host, port), "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        server.close_clients() if hasattr(server, "close_clients") else None
