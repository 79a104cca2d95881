"""Task servers that misbehave, on real sockets: each behaviour is a coroutine that holds one end of a WebSocket.

`peer(play)` serves OpenEnv's frames with a handler of the test's; `raw_peer` speaks whatever bytes the test writes.
The frames below are what OpenEnv 0.10's own server puts on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Handler = Callable[[ServerConnection], Awaitable[None]]


@dataclass
class Peer:
    """A running peer: its URL, every request it was sent, its handshakes' headers and the sockets open now."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    live: set[ServerConnection] = field(default_factory=set)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_asked(self, seconds: float = 20.0) -> None:
        """Return once a request came."""
        async with asyncio.timeout(seconds):
            await self.asked.wait()

    async def until_closed(self, seconds: float = 20.0) -> None:
        """Return once the last open socket closed; the client's end is gone then."""
        async with asyncio.timeout(seconds):
            await self.left.wait()


@contextlib.asynccontextmanager
async def peer(
    handler: Handler, *, refuse: HTTPStatus | None = None, port: int = 0, **options: Any
) -> AsyncIterator[Peer]:
    """A WebSocket server at ``/ws`` whose connections `handler` plays; `refuse` answers each handshake instead."""
    running = Peer()

    async def handle(connection: ServerConnection) -> None:
        running.live.add(connection)
        running.left.clear()
        try:
            await handler(Recorded(connection, running))  # type: ignore[arg-type]
        except ConnectionClosed:
            pass
        finally:
            with contextlib.suppress(ConnectionClosed):
                await connection.close()
            running.live.discard(connection)
            if not running.live:
                running.left.set()

    def process_request(connection: ServerConnection, request: Request) -> Response | None:
        running.headers.append(dict(request.headers.raw_items()))
        if refuse is not None:
            return connection.respond(refuse, "refused\n")
        if request.path != "/ws":
            return connection.respond(HTTPStatus.NOT_FOUND, "no such path\n")
        return None

    server = await serve(
        handle, "127.0.0.1", port, process_request=process_request, close_timeout=0.5, max_size=None, **options
    )
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        for connection in list(running.live):
            connection.transport.abort()
        await server.wait_closed()


class Recorded:
    """A server's connection that keeps what it was sent."""

    def __init__(self, connection: ServerConnection, peer: Peer) -> None:
        self._connection, self._peer = connection, peer

    async def recv(self) -> Any:
        text = await self._connection.recv()
        self._peer.requests.append(json.loads(text))
        self._peer.asked.set()
        return self._peer.requests[-1]

    async def send(self, frame: Any) -> None:
        await self._connection.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextlib.asynccontextmanager
async def raw_peer(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """A TCP server whose bytes are the test's; yields its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await talk(reader, writer)
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class HttpPeer:
    """A running HTTP peer: its URL, and each request's method, path and JSON body."""

    url: str = ""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(asked == path for _, asked, _ in self.requests)


@contextlib.asynccontextmanager
async def http_peer(answer: Callable[[str, str, Any], tuple[int, Any]]) -> AsyncIterator[HttpPeer]:
    """An HTTP server; `answer(method, path, body)` returns a status and what JSON, or which bytes, to send."""
    running = HttpPeer()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            first, *lines = head.strip().split("\r\n")
            method, path, _ = first.split(" ")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            running.requests.append((method, path, json.loads(body) if body else None))
            running.headers.append(headers)
            status, said = answer(*running.requests[-1])
            payload = said if isinstance(said, bytes) else json.dumps(said).encode()
            writer.write(f"HTTP/1.1 {status} So\r\nContent-Length: {len(payload)}\r\n\r\n".encode() + payload)
            await writer.drain()

    async with raw_peer(talk) as url:
        running.url = url
        yield running


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def observation(
    observed: dict[str, Any] | None = None, *, metadata: Any = None, reward: Any = None, done: bool = False
) -> dict[str, Any]:
    """An observation frame."""
    metadata = {} if metadata is None else metadata
    return {
        "type": "observation",
        "data": {"observation": {**(observed or {}), "metadata": metadata}, "reward": reward, "done": done},
    }


def error(code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    """An error frame."""
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def first_turn(split: str = "train", index: int = 0, prompt: str = "Add up.", turns: int = 1) -> dict[str, Any]:
    """The answer to a reset."""
    task = {"id": f"{split}-{index}", "name": "sums", "split": split, "index": index, "turn": 0, "turns": turns}
    return observation(metadata={"prompt": prompt, "system_prompt": "Be brief.", "task": task})


def said(name: str, text: str, *, is_error: bool = False, metadata: Any = None) -> dict[str, Any]:
    """A tool's answer in text."""
    result = {"content": [{"type": "text", "text": text}], "structured_content": None, "meta": None, "data": text}
    return observation(
        {"tool_name": name, "result": {**result, "is_error": is_error}, "error": None}, metadata=metadata
    )


def refused(name: str, error_type: str, message: str) -> dict[str, Any]:
    """A tool call that the server could not do."""
    return observation(
        {"tool_name": name, "result": None, "error": {"error_type": error_type, "message": message}}, metadata={}
    )


def ended(reward: Any, **scores: Any) -> dict[str, Any]:
    """The answer to the last turn's end."""
    observed = {"tool_name": "end_turn", "result": None, "error": None}
    return observation(observed, metadata={"scores": scores}, reward=reward, done=True)


def failed(message: str = "the env broke", name: str | None = None) -> dict[str, Any]:
    """The answer of an episode that cannot go on."""
    observed = {} if name is None else {"tool_name": name, "result": None, "error": None}
    return observation(observed, metadata={"status": "error", "error": message}, done=True)


def next_turn(prompt: str, system_prompt: str = "") -> dict[str, Any]:
    """The answer to a turn's end that opened another one."""
    opened = {"prompt": prompt, "system_prompt": system_prompt}
    return observation({"tool_name": "end_turn", "result": {"data": opened}, "error": None}, metadata=opened)


TOOLS = observation(
    {
        "tools": [
            {
                "name": "add",
                "description": "Add a number.",
                "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            },
            {
                "name": "end_turn",
                "description": "End the turn.",
                "input_schema": {"type": "object", "properties": {"response": {"type": "string"}}},
            },
        ]
    }
)


async def sums(connection: Any) -> None:
    """A well-behaved peer: one turn, ``add(n)`` adds, the reward is a tenth of the sum."""
    total = 0
    while True:
        request = await connection.recv()
        if request["type"] == "reset":
            await connection.send(first_turn(request["data"]["split"], request["data"]["index"]))
            continue
        action = request["data"]
        if action["type"] == "list_tools":
            await connection.send(TOOLS)
        elif action["tool_name"] == "end_turn":
            await connection.send(ended(total / 10, sum=total / 10))
        else:
            total += action["arguments"]["n"]
            await connection.send(said("add", str(total)))
