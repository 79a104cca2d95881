"""The wire: handshakes that fail in each way a handshake can, and how a connection is set up."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent_env.errors import NotATaskServer, ServerAtCapacity, ServerUnreachable, SessionError, TokenRefused
from agent_env.training import wire
from agent_env.training.shared import Shared
from agent_env.training.wire import Socket, status_error
from support.peers import free_port, peer, raw_peer, sums


async def shake_hands(url: str, **limits: Any) -> None:
    """Connect and close."""
    socket = await Socket.open(Shared(url, **limits), time.monotonic() + 60)
    await socket.close()


async def test_another_path():
    async with peer(sums) as server:
        with pytest.raises(NotATaskServer, match="HTTP 404 at /ws"):
            await shake_hands(server.url + "/elsewhere")


async def test_bytes_that_are_no_http():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await writer.drain()
        await reader.read()

    async with raw_peer(talk) as url:
        with pytest.raises(NotATaskServer, match="not in HTTP"):
            await shake_hands(url)


async def test_a_web_page():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Fine\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with raw_peer(talk) as url:
        with pytest.raises(NotATaskServer, match="/ws opens no WebSocket"):
            await shake_hands(url)


async def test_tls_where_there_is_none():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with raw_peer(talk) as url:
        with pytest.raises(NotATaskServer, match="TLS failed"):
            await shake_hands(url.replace("http:", "https:"))


async def test_no_answer_to_the_handshake():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_peer(talk) as url:
        with pytest.raises(ServerUnreachable, match=r"no handshake in 0\.3 s"):
            await shake_hands(url, connect_timeout=0.3)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, NotATaskServer),
        (400, NotATaskServer),
        (401, TokenRefused),
        (403, TokenRefused),
        (404, NotATaskServer),
        (426, NotATaskServer),
        (429, ServerAtCapacity),
        (500, ServerUnreachable),
        (501, NotATaskServer),
        (503, ServerUnreachable),
    ],
)
def test_what_a_status_says(status, error):
    found = status_error(Shared("http://env"), status, "/ws")
    assert type(found) is error
    assert str(status) in str(found)


async def test_a_batch_of_rollouts_does_not_overrun_the_listen_queue():
    in_handshake, most = 0, 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal in_handshake, most
        in_handshake += 1
        most = max(most, in_handshake)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.05)
        in_handshake -= 1
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with raw_peer(talk) as url:
        ended = await asyncio.gather(
            *(shake_hands(url, connect_timeout=60) for _ in range(100)), return_exceptions=True
        )
    assert {type(error) for error in ended} == {TokenRefused}
    assert 1 < most <= wire.CONCURRENT_HANDSHAKES


async def test_a_cancelled_handshake_gives_its_slot_back():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_peer(talk) as silent, peer(sums) as server:
        stuck = [
            asyncio.create_task(shake_hands(silent, connect_timeout=60)) for _ in range(wire.CONCURRENT_HANDSHAKES)
        ]
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(shake_hands(server.url))
        with pytest.raises(ServerUnreachable, match="no handshake could be started before the deadline"):
            await Socket.open(Shared(server.url), time.monotonic() + 0.1)
        for task in stuck:
            task.cancel()
        assert {type(end) for end in await asyncio.gather(*stuck, return_exceptions=True)} == {asyncio.CancelledError}
        await waiting


def test_each_event_loop_has_its_own_slots():
    async def play() -> None:
        async with peer(sums) as server:
            await shake_hands(server.url)

    for _ in range(3):
        asyncio.run(play())


async def test_nothing_is_compressed():
    async with peer(sums) as server:
        await shake_hands(server.url)
    assert "Sec-WebSocket-Extensions" not in server.headers[0]


async def test_a_missing_pong_ends_nothing():
    # A server busy for longer than a ping may wait is not dead: what ends a session is an answer's own deadline.
    async with peer(sums) as server:
        socket = await Socket.open(Shared(server.url), time.monotonic() + 60)
        assert socket._connection.ping_interval == 20
        assert socket._connection.ping_timeout is None
        await socket.close()


async def test_no_proxy_of_the_environment_is_used_for_this_machine(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    async with peer(sums) as server:
        await shake_hands(server.url)
    with pytest.raises(ServerUnreachable):  # for another machine it is
        await shake_hands("http://198.51.100.1:9", connect_timeout=5)


async def test_a_name_that_does_not_resolve():
    with pytest.raises(SessionError) as caught:
        await shake_hands("http://no-such-host.invalid:9", connect_timeout=5)
    assert isinstance(caught.value, ServerUnreachable)
