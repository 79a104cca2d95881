"""Our server against OpenEnv's own, in one run: sessions a second and tool calls a second.

``python benchmarks/server.py [--rounds 15] [--seconds 1] [--clients 16] [--json FILE]``

Both serve the same echo environment, each in a process of its own, at their default settings: OpenEnv's `create_app`
with a plain async environment under `uvicorn.run`, ours as ``agent-env serve`` (hosting "async"). One after the other
is measured, in short rounds, so that what else the machine does falls on both alike. A ratio is the median of the
rounds' ratios, each of two rounds next to each other. A session is a connection, a reset and a close; a call is one
tool call in a session that is open.

The client writes frames that were made beforehand and reads only their lengths, so that it is not what is measured; it
runs in this process. Beside what got through, the processor time that each server spent an operation is printed: it
hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
START_TIMEOUT = 60.0

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(message: dict[str, Any]) -> bytes:
    """A client's text frame, masked with zeros."""
    body = json.dumps(message).encode()
    length = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + struct.pack("!H", len(body))
    return b"\x81" + length + b"\0\0\0\0" + body


RESET = frame({"type": "reset", "data": {"split": "train", "index": 0}})
CALL = frame(
    {
        "type": "step",
        "data": {
            "type": "call_tool",
            "tool_name": "echo",
            "arguments": {"text": "What does it cost to charge at noon and to discharge in the evening?"},
        },
    }
)
CLOSE = frame({"type": "close"})


class Client:
    """One WebSocket, spoken by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101"), answer
        return cls(reader, writer)

    async def ask(self, request: bytes) -> bytes:
        """Send a frame, return the answer's body; a ping that comes between is answered."""
        self._writer.write(request)
        while True:
            kind, short = await self._reader.readexactly(2)
            length = short
            if short >= 126:
                size = 2 if short == 126 else 8
                length = int.from_bytes(await self._reader.readexactly(size), "big")
            body = await self._reader.readexactly(length)
            if kind == 0x81:
                return body
            if kind == 0x89:
                self._writer.write(bytes([0x8A, 0x80 | len(body)]) + b"\0\0\0\0" + body)

    async def close(self) -> None:
        """Send the close message and wait until the server has closed."""
        self._writer.write(CLOSE)
        await self._reader.readexactly(2)
        # The answer to its close frame; then it closes the connection.
        self._writer.write(b"\x88\x80\0\0\0\0")
        await self._reader.read()
        self._writer.close()

    def drop(self) -> None:
        """Let go of the connection, without a word."""
        self._writer.close()


@dataclass
class Server:
    """A server under test, and what was measured of it: a rate and a cost for each round."""

    name: str
    command: list[str]
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)

    def start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        command = [part.format(port=self.port) for part in self.command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} did not start: {' '.join(command)}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def processor_seconds(self) -> float:
        """Of the server and its worker processes."""
        assert self.process is not None
        server = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
        return sum(t.user + t.system for t in times)


async def sessions(port: int, until: float) -> int:
    """Sessions that one client opens and closes, one after another."""
    count = 0
    while time.perf_counter() < until:
        client = await Client.connect(port)
        answer = await client.ask(RESET)
        assert b'"prompt":"Say something."' in answer, answer
        await client.close()
        count += 1
    return count


async def calls(port: int, until: float) -> int:
    """Calls that one client makes, one after another, in one session."""
    client = await Client.connect(port)
    await client.ask(RESET)
    count = 0
    while time.perf_counter() < until:
        answer = await client.ask(CALL)
        assert b'"is_error":false' in answer, answer
        count += 1
    await client.close()
    return count


WORK: dict[str, Callable[[int, float], Awaitable[int]]] = {"sessions": sessions, "calls": calls}


async def measure(server: Server, what: str, clients: int, seconds: float) -> None:
    """One round: `clients` at once for `seconds`."""
    spent, began = server.processor_seconds(), time.perf_counter()
    counts = await asyncio.gather(*(WORK[what](server.port, began + seconds) for _ in range(clients)))
    took, total = time.perf_counter() - began, max(1, sum(counts))
    server.rates.setdefault(what, []).append(total / took)
    server.costs.setdefault(what, []).append((server.processor_seconds() - spent) / total * 1e6)


@contextlib.contextmanager
def running(servers: list[Server]) -> Iterator[None]:
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.stop()


def main() -> None:
    """Measure, print, and perhaps write the JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15, help="rounds of each measurement, of each server")
    options.add_argument("--seconds", type=float, default=1.0, help="length of a round")
    options.add_argument("--clients", type=int, default=16, help="clients at once")
    options.add_argument("--json", type=Path, help="a file for the numbers")
    chosen = options.parse_args()
    theirs = Server("OpenEnv's create_app", [sys.executable, str(HERE / "openenv_echo.py"), "{port}"])
    serve = [sys.executable, "-m", "agent_env.cli.main", "serve", str(HERE / "echo"), "--max-sessions", "256"]
    ours = Server("agent-env serve", [*serve, "--port", "{port}"])
    with running([theirs, ours]):
        for what in WORK:
            for server in (theirs, ours):
                run(measure(server, what, chosen.clients, 0.5))
                server.rates[what].clear()
                server.costs[what].clear()
            for _ in range(chosen.rounds):
                for server in (theirs, ours):
                    run(measure(server, what, chosen.clients, chosen.seconds))
    report = {"machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"}
    report |= {key: getattr(chosen, key) for key in ("rounds", "seconds", "clients")}
    for what in WORK:
        report[what] = compare(what, theirs, ours)
    print(json.dumps(report))
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")


def run(work: Awaitable[None]) -> None:
    """`asyncio.run`, on uvloop where it is installed: the client should be no slower than it must."""

    async def main() -> None:
        await work

    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())


def compare(what: str, theirs: Server, ours: Server) -> dict[str, float]:
    """Print one comparison and return it."""
    row = {}
    for name, server in (("openenv", theirs), ("agent_env", ours)):
        row[f"{name}_per_second"] = round(statistics.median(server.rates[what]), 1)
        row[f"{name}_cpu_us"] = round(statistics.median(server.costs[what]), 1)
        print(
            f"{what:9} {server.name:22} {row[f'{name}_per_second']:9.1f} a second   "
            f"{row[f'{name}_cpu_us']:8.1f} us of processor time each   "
            f"(best round: {max(server.rates[what]):.0f} a second)"
        )
    row["ratio"] = median_ratio(ours.rates[what], theirs.rates[what])
    row["cpu_ratio"] = median_ratio(theirs.costs[what], ours.costs[what])
    ratios = f"{row['ratio']:.2f} in what gets through, {row['cpu_ratio']:.2f} a processor second"
    print(f"{what:9} ours / theirs: {ratios}\n")
    return row


def median_ratio(over: list[float], under: list[float]) -> float:
    """Median of the rounds' ratios."""
    return round(statistics.median(a / b for a, b in zip(over, under, strict=True)), 2)


if __name__ == "__main__":
    main()
