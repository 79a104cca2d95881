"""A server of ours in a thread of the test's process, so that a test sees each request where it arrives."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn


@dataclass
class Running:
    """A running server: its URL, and ``METHOD path`` of each request or ``WS path`` of each socket."""

    url: str
    requests: list[str] = field(default_factory=list)

    def count(self, request: str) -> int:
        """How often it was asked for this."""
        return self.requests.count(request)


@contextlib.contextmanager
def running(app: Any, **options: Any) -> Iterator[Running]:
    """Serve an ASGI application on a free port until the block ends; `options` are uvicorn's."""
    seen = Running("")

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.requests.append(f"{scope['method']} {scope['path']}")
        elif scope["type"] == "websocket":
            seen.requests.append(f"WS {scope['path']}")
        await app(scope, receive, send)

    config = uvicorn.Config(watched, host="127.0.0.1", port=0, log_level="warning", lifespan="on", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start in 30 s"
            time.sleep(0.01)
        seen.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        yield seen
    finally:
        server.should_exit = True
        thread.join()
