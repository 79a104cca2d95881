"""The two ends of a connection that uvicorn leaves open, on real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from support.servers import Server, client, serving
from support.trials import write_trials
from support.waiting import within

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trials(tmp_path_factory.mktemp("trials"), "async", max_answer=6 * MEBIBYTE)


@pytest.fixture(scope="module")
def server(trials: Path) -> Iterator[Server]:
    # Patient: these clients are busy, not gone.
    with serving(trials, "--peer-timeout", "100") as server:
        yield server


@pytest.mark.parametrize("size", [17 * MEBIBYTE, 64 * MEBIBYTE])
async def test_a_message_over_the_limit_is_refused_with_a_reason(server: Server, size: int) -> None:
    """Every time: the reason must not be overtaken by a reset of the connection."""
    for _ in range(5):
        async with client(server.ws, ping_interval=None) as guest:
            with pytest.raises(ConnectionClosed) as caught:
                await guest.frame("x" * size)
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009
            assert "16777216" in caught.value.rcvd.reason


async def test_a_message_in_many_frames_is_counted_as_one(server: Server) -> None:
    async with client(server.ws, ping_interval=None) as guest:
        with pytest.raises(ConnectionClosed) as caught:
            await guest.socket.send("x" * MEBIBYTE for _ in range(20))
            await guest.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


async def test_a_message_just_under_the_limit_passes(server: Server) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        text = "x" * (4 * MEBIBYTE)
        assert await guest.text("echo", text=text) == text


async def test_text_that_is_not_utf8_ends_the_connection_with_its_code(server: Server) -> None:
    async with client(server.ws) as guest:
        with pytest.raises(ConnectionClosed) as caught:
            await guest.socket.send(b"\xff\xfe", text=True)
            await guest.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1007


async def test_no_compression_is_agreed_on(server: Server) -> None:
    from websockets.asyncio.client import connect

    async with connect(server.ws, proxy=None) as socket:
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


FROZEN = """
import sys
from websockets.sync.client import connect

socket = connect(sys.argv[1], compression=None, proxy=None, max_size=None)
socket.send('{"type": "reset"}')
socket.recv()
# Stops itself before the answer, far larger than the buffers between, can be read.
print("ready", flush=True)
socket.send(sys.argv[2])
sys.stdin.read()
"""


async def test_a_client_that_freezes_before_a_large_answer_is_cut_off(trials: Path) -> None:
    with serving(trials, "--max-sessions", "1", "--admission-timeout", "0.5", "--peer-timeout", "3") as server:
        await freeze(server)


async def freeze(server: Server) -> None:
    step = json.dumps(
        {"type": "step", "data": {"type": "call_tool", "tool_name": "big", "arguments": {"size": 5 << 20}}}
    )
    process = subprocess.Popen(
        [sys.executable, "-c", FROZEN, server.ws, step], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        os.kill(process.pid, signal.SIGSTOP)
        frozen = time.monotonic()
        while True:
            async with client(server.ws) as newcomer:
                if "code" not in await newcomer.ask("state"):
                    break
            assert time.monotonic() - frozen < within(20)
    finally:
        process.kill()
        process.communicate()
