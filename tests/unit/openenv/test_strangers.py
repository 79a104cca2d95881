"""What a server lets each token do, and what of its tokens can be seen: real servers, real sockets."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agent_env.bundle import load_bundle
from agent_env.openenv import build_app
from agent_env.training.sessions import Shared, opened
from support.bundles import jsonl, write_bundle
from support.servers import Server, client, serving
from support.trials import write_trials
from support.waiting import until

FIRST, SECOND = "first-s3cret", "second-s3cret"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_every_route_but_the_health_check_is_behind_the_token(tmp_path: Path) -> None:
    app = build_app(load_bundle(write_trials(tmp_path)), token=FIRST)
    asked = []

    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            for route in app.routes:
                # A kind of route that this test cannot walk (a Mount, a Host) has an attribute fewer.
                path = re.sub(r"\{\w+\}", "trials", route.path)  # type: ignore[attr-defined]
                for method in getattr(route, "methods", None) or ["WEBSOCKET"]:
                    if method == "WEBSOCKET":
                        asked.append((method, path, await handshake(path)))
                    else:
                        asked.append((method, path, (await http.request(method, path)).status_code))

    async def handshake(path: str) -> int:
        sent: list[dict[str, object]] = []

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": path, "headers": [], "extensions": {"websocket.http.response": {}}}
        await app(scope, None, send)  # type: ignore[arg-type]
        return int(str(sent[0]["status"]))

    asyncio.run(ask())
    paths = {path for _, path, _ in asked}
    assert {"/health", "/metadata", "/schema", "/mcp", "/ws", "/list_environments", "/trials/task"} < paths
    assert {path for _, path, status in asked if status != 401} == {"/health"}


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Server]:
    """A server with two tokens, of which each may have one session and twenty requests a second."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{FIRST}\n{SECOND}\n")
    options = ["--token-file", str(tokens), "--token-sessions", "1", "--token-requests", "20"]
    options += ["--admission-timeout", "0.5", "--max-message-bytes", "10000", "--max-sessions", "3"]
    with serving(write_trials(tmp_path / "trials"), *options) as server:
        yield server


async def test_a_token_has_its_own_number_of_sessions(limited: Server) -> None:
    async with client(limited.ws, additional_headers=bearer(FIRST)) as one:
        assert (await one.reset())["done"] is False
        async with client(limited.ws, additional_headers=bearer(FIRST)) as another:
            refusal = (await another.receive())["data"]
            assert refusal["code"] == "CAPACITY_REACHED"
            assert refusal["message"].startswith(
                "Server at capacity: 1/1 sessions active. Cannot accept new connections."
            )
            assert "this token's limit" in refusal["message"]
            assert "--token-sessions" in refusal["message"]
        async with client(limited.ws, additional_headers=bearer(SECOND)) as other:
            assert (await other.reset())["done"] is False
        made = await asyncio.to_thread(create_session, limited, FIRST)
        assert "this token's limit" in made["error"]["message"]
    # Both are free again.
    async with client(limited.ws, additional_headers=bearer(FIRST)) as one:
        assert (await one.reset())["done"] is False


def create_session(server: Server, token: str) -> dict[str, dict[str, str]]:
    body = {"jsonrpc": "2.0", "method": "openenv/session/create", "id": 1}
    answer = httpx.post(f"{server.url}/mcp", json=body, headers=bearer(token), trust_env=False)
    made: dict[str, dict[str, str]] = answer.json()
    return made


async def test_calls_over_the_rate_are_held_back_and_none_is_lost(limited: Server) -> None:
    async with client(limited.ws, additional_headers=bearer(FIRST)) as guest:
        await guest.reset()
        began = time.monotonic()
        for number in range(40):
            await guest.send_call("echo", text=str(number))
        answers = [(await guest.receive())["data"]["observation"]["result"]["data"] for _ in range(40)]
        # 42 requests with the handshake and the reset, of which twenty may come at once.
        assert time.monotonic() - began > (42 - 20) / 20 - 0.2
    assert answers == [str(number) for number in range(40)]


def flooding(server: Server) -> httpx.AsyncClient:
    """A client of many connections at once."""
    many = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=server.url, headers=bearer(FIRST), trust_env=False, limits=many, timeout=60)


async def test_requests_far_over_the_rate_are_told_when_to_come_again(limited: Server) -> None:
    async with flooding(limited) as http:
        answers = await asyncio.gather(*(http.get("/metadata") for _ in range(400)))
        refused = [answer for answer in answers if answer.status_code == 429]
        # A second's worth at once, and five seconds' worth of turns.
        assert sum(answer.status_code == 200 for answer in answers) >= 119
        assert refused
        assert all(int(answer.headers["retry-after"]) >= 5 for answer in refused)
        assert "over 20 requests a second" in refused[0].json()["detail"]


async def test_a_message_over_the_limit_is_refused_with_the_reason(limited: Server) -> None:
    async with client(limited.ws, additional_headers=bearer(FIRST)) as guest:
        await guest.reset()
        assert await guest.text("echo", text="x" * 4000) == "x" * 4000
        answer = await guest.call("big", size=20000)
        assert "over the 10000 bytes of a message" in answer["metadata"]["error"]
        await guest.send_call("echo", text="x" * 20000)
        with pytest.raises(ConnectionClosed) as caught:
            await guest.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


async def test_a_token_that_is_taken_out_is_refused_also_in_a_session_that_runs(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{FIRST}\n")
    with serving(write_trials(tmp_path / "trials"), "--token-file", str(tokens)) as server:
        async with client(server.ws, additional_headers=bearer(FIRST)) as old:
            await old.reset()
            tokens.write_text(f"{FIRST}\n{SECOND}\n")
            await until(lambda: status(server, SECOND) == 200)
            assert await old.text("echo", text="both are valid") == "both are valid"
            tokens.write_text(f"{SECOND}\n")
            await until(lambda: status(server, FIRST) == 401)
            assert status(server, SECOND) == 200
            await old.send_call("echo", text="too late")
            with pytest.raises(ConnectionClosed) as caught:
                await old.receive()
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "the token is no longer valid")
        # A client reads the first line of the same file.
        shared = Shared(server.url, token_file=str(tokens))
        async with opened(shared, "train", 0) as session:
            assert (await session.call("echo", {"text": "new"})).text == "new"


def status(server: Server, token: str) -> int:
    return httpx.get(server.url + "/metadata", headers=bearer(token), trust_env=False).status_code


CURIOUS = '''
import os
from agent_env import Environment, tool

class Curious(Environment):
    """Tells what it finds."""

    def reset(self, task, seed):
        pass

    @tool
    def environ(self) -> str:
        """What the environment variables are."""
        return repr(dict(os.environ))

    @tool
    def fail(self, text: str) -> str:
        """Fail."""
        raise RuntimeError(text)

    def score(self, reply):
        return 1.0
'''
TURN = {"id": "only", "prompt": "Look around.", "verifier": {"type": "env"}}


@pytest.mark.parametrize("mode", ["threads", "processes"])
@pytest.mark.parametrize("place", ["--token-var", "--token-file"])
async def test_the_token_is_in_no_log_no_process_list_and_no_answer(tmp_path: Path, mode: str, place: str) -> None:
    toml = f'name = "curious"\nenv = "env:Curious"\nsplits = ["train"]\n[hosting]\nmode = "{mode}"\n'
    task = jsonl({"id": "look", "turns": [TURN]})
    folder = write_bundle(tmp_path / "curious", {"bundle.toml": toml, "env.py": CURIOUS, "tasks/train.jsonl": task})
    tokens = tmp_path / "tokens"
    tokens.write_text(FIRST)
    where = "TOKEN_OF_TEST" if place == "--token-var" else str(tokens)
    with serving(folder, place, where, env={"TOKEN_OF_TEST": FIRST, "PYTHONASYNCIODEBUG": "1"}) as server:
        answers = []
        with pytest.raises(InvalidStatus) as caught:
            async with client(server.ws, additional_headers=bearer(f"{FIRST}x")):
                pass
        answers.append(f"{caught.value} {caught.value.response.body!r} {caught.value.response.headers}")
        async with client(server.ws, additional_headers=bearer(FIRST)) as guest:
            answers.append(str(await guest.reset()))
            answers.append(await guest.text("environ"))
            assert "PYTHONASYNCIODEBUG" in answers[-1]
            answers.append(str(await guest.frame("no request")))
            answers.append(str(await guest.call("fail", text="on purpose")))
            children = [child.pid for child in psutil.Process(server.process.pid).children(recursive=True)]
            lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in (server.process.pid, *children)]
        server.stop()
        assert "agent_env.cli.main" in lines[0]
        assert len(lines) > 1
        assert "on purpose" in "".join(server.log)
        if place == "--token-file":
            # Nothing took it out of this server's environment: it was not named.
            answers = [answer for answer in answers if "PYTHONASYNCIODEBUG" not in answer]
        assert FIRST not in "".join([*answers, *lines, *server.log])


async def test_a_page_in_a_browser_opens_no_session_of_a_server_without_a_token(tmp_path: Path) -> None:
    with serving(write_trials(tmp_path)) as server:
        with pytest.raises(InvalidStatus, match="HTTP 403"):
            async with client(server.ws, origin="http://a.page.example"):
                pass
        async with client(server.ws) as guest:
            assert (await guest.reset())["done"] is False


async def test_a_port_in_use_on_ipv6_is_named_with_brackets(tmp_path: Path) -> None:
    from agent_env.errors import InputError
    from agent_env.openenv.server import listen

    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with taken, pytest.raises(InputError, match=rf"\[::1\]:{taken.getsockname()[1]} is in use"):
        listen("::1", taken.getsockname()[1], 9)
