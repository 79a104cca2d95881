"""How a real server begins and ends: addresses, signals, and what is left of it when it is killed."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from agent_env.errors import InputError
from agent_env.openenv.server import listen, url_of
from support.bundles import write_bundle
from support.servers import Server, client, serving
from support.trials import write_trials
from support.waiting import until, within

MODES = ["async", "threads", "processes"]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def offspring(server: Server) -> list[int]:
    """Every process below the server."""
    return [child.pid for child in psutil.Process(server.process.pid).children(recursive=True)]


async def closed_with(
    server: Server, seen: list[tuple[int, str]], tool: str, seconds: float, ready: asyncio.Event
) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        await guest.send_call(tool, seconds=seconds)
        ready.set()
        with pytest.raises(ConnectionClosed) as caught:
            await guest.receive()
        assert caught.value.rcvd is not None
        seen.append((caught.value.rcvd.code, tool))


@pytest.mark.parametrize("mode", MODES)
async def test_sigterm_ends_everything_within_a_bounded_time(tmp_path: Path, mode: str) -> None:
    log = tmp_path / "log"
    log.touch()
    with serving(write_trials(tmp_path / "trials", mode, log=str(log)), "--max-sessions", "2") as server:
        seen: list[tuple[int, str]] = []
        steps = {"nap": 60.0} if mode == "async" else {"nap": 60.0, "sleep": 60.0}
        async with asyncio.TaskGroup() as group:
            for tool, seconds in steps.items():
                ready = asyncio.Event()
                group.create_task(closed_with(server, seen, tool, seconds, ready))
                await ready.wait()
            await until(lambda: all(tool in log.read_text() for tool in steps))
            async with client(server.ws) as waiting:
                # At the limit in the other modes: also a newcomer in the queue is told.
                await waiting.socket.send('{"type": "state"}')
                below = offspring(server)
                began = time.monotonic()
                status = await asyncio.to_thread(server.stop, signal.SIGTERM)
                took = time.monotonic() - began
                with pytest.raises(ConnectionClosed) as caught:
                    while True:
                        await waiting.receive()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1012
        assert status == 0
        assert took < within(12)
        assert sorted(seen) == sorted((1012, tool) for tool in steps)
        assert below
        assert not any(map(is_alive, below))
        if mode != "processes":
            assert "cancelled" in log.read_text()
        assert "Traceback" not in "".join(server.log)


async def test_sigint_ends_it_as_well(tmp_path: Path) -> None:
    with serving(write_trials(tmp_path, "async")) as server:
        assert await asyncio.to_thread(server.stop, signal.SIGINT) == 0


def test_sigterm_while_it_starts_ends_it_as_well(tmp_path: Path) -> None:
    folder = write_trials(tmp_path, "processes")
    # Loads at once here, and slowly in the process that workers are made by.
    slow = "import sys, time\nif 'template' in ' '.join(sys.orig_argv):\n    time.sleep(60)\n"
    (folder / "env.py").write_text(slow + (folder / "env.py").read_text())
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (below := psutil.Process(server.pid).children(recursive=True)) or len(below) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server.terminate()
        output, errors = server.communicate(timeout=30)
        assert (server.returncode, output, errors) == (0, "", "")
        assert not any(is_alive(process.pid) for process in below)
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("mode", MODES)
async def test_two_seconds_after_sigkill_no_process_is_left(tmp_path: Path, mode: str) -> None:
    log = tmp_path / "log"
    log.touch()
    with serving(write_trials(tmp_path / "trials", mode, log=str(log))) as server:
        async with client(server.ws) as guest, client(server.ws) as other:
            await guest.reset()
            child = int(await guest.text("child"))
            assert is_alive(child)
            await other.reset()
            if mode == "processes":
                # The interpreter's lock is held throughout, so no thread of the worker can notice anything.
                await other.send_call("spin")
                await until(lambda: "spin" in log.read_text())
            below = [*offspring(server), child]
            assert len(below) >= (2 if mode != "processes" else 5)
            await asyncio.to_thread(server.stop, signal.SIGKILL)
            killed = time.monotonic()
            await until(lambda: not any(map(is_alive, below)))
            assert time.monotonic() - killed < within(2.0)


async def test_what_an_environment_left_running_ends_with_the_server(tmp_path: Path) -> None:
    with serving(write_trials(tmp_path, "threads")) as server:
        async with client(server.ws) as guest:
            await guest.reset()
            child = int(await guest.text("child"))
        assert is_alive(child)
        assert await asyncio.to_thread(server.stop) == 0
        assert not is_alive(child)


async def test_it_serves_while_an_environment_blocks_its_loop(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with serving(write_trials(tmp_path / "trials", "async", log=str(log))) as server:
        async with client(server.ws) as guest, client(server.ws) as idle:
            await idle.ask("state")
            await guest.reset()
            await guest.send_call("sleep", seconds=12)
            await until(lambda: "sleep" in log.read_text())
            began = time.monotonic()
            async with httpx.AsyncClient(trust_env=False) as http:
                assert (await http.get(server.url + "/health")).json() == {"status": "healthy"}
            assert (await idle.ask("state"))["done"] is False
            assert time.monotonic() - began < within(2)
            # Pings go on as well: after longer than a dead peer is given, both sessions are there.
            assert (await guest.receive())["data"]["observation"]["result"]["data"] == "awake"
            assert (await idle.ask("state"))["done"] is False


HOLDING = """
import ctypes
from agent_env import Environment, tool


class Holding(Environment):
    def reset(self, task, seed):
        pass

    @tool
    def hold(self) -> str:
        \"\"\"Sleep in C without letting go of the interpreter.\"\"\"
        ctypes.PyDLL(None).sleep(600)

    def score(self, reply):
        return 1.0
"""


async def test_a_server_whose_interpreter_is_held_ends_and_says_by_what(tmp_path: Path) -> None:
    toml = 'name = "holding"\nenv = "env:Holding"\nsplits = ["train"]\n'
    with serving(write_bundle(tmp_path / "holding", {"bundle.toml": toml, "env.py": HOLDING})) as server:
        async with client(server.ws) as guest:
            await guest.reset()
            await guest.send_call("hold")
            # Nothing in the process can run any more: no deadline, no signal's handler.
            assert await asyncio.to_thread(server.process.wait, 90) == 1
    (place,) = (line for line in server.log if "/holding/env.py" in line)
    assert place.endswith(" in hold\n")


def test_a_port_in_use_is_one_clear_error() -> None:
    with listen("127.0.0.1", 0, 9.0) as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} is in use"):
            listen("127.0.0.1", port, 9.0)


def test_an_unknown_host_is_one_clear_error() -> None:
    with pytest.raises(InputError, match="is not known here"):
        listen("no.such.host.invalid", 0, 9.0)
    with pytest.raises(InputError, match="is not known here"):
        listen("\ud800", 0, 9.0)


def test_connections_notice_a_peer_that_is_gone_below_the_websocket_too() -> None:
    with listen("127.0.0.1", 0, 4.0) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 4
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4000


def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    with listen("::1", 0, 9.0) as listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"
