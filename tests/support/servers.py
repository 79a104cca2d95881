"""Real servers for tests: `agent-env serve` in a process of its own, and a socket to talk to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

START_TIMEOUT = 100.0
STOP_TIMEOUT = 30.0


@dataclass
class Server:
    """A running server. `log` grows with what it writes to stderr."""

    url: str
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    @property
    def ws(self) -> str:
        return self.url.replace("http", "ws", 1) + "/ws"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT)


@contextlib.contextmanager
def serving(bundle: Path | str, *options: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    """`agent-env serve BUNDLE --port 0 …` until the block ends."""
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", str(bundle), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    log: list[str] = []
    # Also what keeps the server from blocking on a full pipe.
    reader = threading.Thread(target=lambda stream: log.extend(stream), args=(process.stderr,), daemon=True)
    reader.start()
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
        timer.cancel()
        if " on http" not in line:
            process.kill()
            reader.join(5)
            raise AssertionError(f"the server did not start: {line!r}, {''.join(log)}")
        yield Server(line.split(" on ")[-1].strip(), process, log)
    finally:
        timer.cancel()
        timer.join()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join(5)
        process.stdout.close()
        process.stderr.close()


class Client:
    """A client of one socket that speaks the frames themselves."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def frame(self, text: str | bytes) -> dict[str, Any]:
        """Send a frame as it is; the answer."""
        await self.socket.send(text)
        return await self.receive()

    async def receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.socket.recv())
        return answer

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Send a message; the answer's ``data``."""
        answer = await self.frame(json.dumps({"type": type, **fields}))
        data: dict[str, Any] = answer["data"]
        return data

    async def reset(self, split: str = "train", index: int = 0, **more: Any) -> dict[str, Any]:
        return await self.ask("reset", data={"split": split, "index": index, **more})

    async def send_call(self, tool: str, **arguments: Any) -> None:
        action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        await self.socket.send(json.dumps({"type": "step", "data": action}))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the answer's ``data``."""
        await self.send_call(tool, **arguments)
        data: dict[str, Any] = (await self.receive())["data"]
        return data

    async def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must answer; its text."""
        data = await self.call(tool, **arguments)
        assert data["observation"].get("result"), data
        text: str = data["observation"]["result"]["data"]
        return text


@contextlib.asynccontextmanager
async def client(url: str, **options: Any) -> AsyncIterator[Client]:
    """A socket to ``/ws`` at `url`."""
    async with connect(url, compression=None, proxy=None, max_size=None, **options) as socket:
        yield Client(socket)
