"""The head of a request has an end, for who sends it for ever and for who never sends the rest."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from agent_env.bundle import load_bundle
from agent_env.openenv import build_app, http_protocol
from agent_env.openenv.http_protocol import MAX_HEAD, HttpProtocol
from support.inprocess import running
from support.servers import Server, client, serving
from support.trials import write_trials


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ["--token-var", "TOKEN_OF_TEST"]
    with serving(write_trials(tmp_path_factory.mktemp("trials")), *options, env={"TOKEN_OF_TEST": "x"}) as server:
        yield server


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname is not None
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=30)


HEAD = b"GET /metadata HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("begin", "rest"),
    [(HEAD + b"X: ", b"x" * 65536), (HEAD, b"X: y\r\n" * 10000), (b"GET /", b"x" * 65536)],
    ids=["one header", "many headers", "a path"],
)
def test_a_head_without_end_is_cut_off(server: Server, begin: bytes, rest: bytes) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    with connected(server.url) as stranger, pytest.raises(OSError, match=r"reset|pipe"):
        stranger.sendall(begin)
        for _ in range(1000):
            stranger.sendall(rest)
    assert process.memory_info().rss - before < 16 * 1024 * 1024
    assert httpx.get(server.url + "/health", trust_env=False).status_code == 200


def test_it_is_told_why(server: Server) -> None:
    with connected(server.url) as stranger:
        stranger.sendall(HEAD + b"X: " + b"x" * (MAX_HEAD + 1))
        assert stranger.recv(1000).startswith(b"HTTP/1.1 431 ")


def test_long_heads_and_bodies_one_after_another_are_answered(server: Server) -> None:
    headers = {"Authorization": "Bearer x", "X": "x" * (MAX_HEAD - 2000)}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as http:
        for _ in range(3):
            assert http.get("/metadata").status_code == 200
            assert http.post("/trials/tasks", content=b"x" * 60000).status_code == 422


async def test_a_session_sends_more_than_a_head_may_have(server: Server) -> None:
    async with client(server.ws, additional_headers={"Authorization": "Bearer x"}) as guest:
        await guest.reset()
        for _ in range(3):
            assert await guest.text("echo", text="x" * 60000) == "x" * 60000


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD])
def test_a_head_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.5)
    with (
        running(build_app(load_bundle(write_trials(tmp_path))), http=HttpProtocol) as server,
        connected(server.url) as stranger,
    ):
        # A connection that was of use before is not treated better.
        stranger.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * (sent != b""))
        assert sent == b"" or stranger.recv(1000).startswith(b"HTTP/1.1 200")
        stranger.sendall(sent)
        assert stranger.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert stranger.recv(1000) == b""
