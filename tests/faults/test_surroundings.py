"""What the machine around a client and its server may do: proxies, IPv6 alone, clocks that jump, slow DNS."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_env.errors import CallTimedOut, ServerAtCapacity
from agent_env.training.sessions import Shared, opened, read_tasks
from support.faults import Fault
from support.peers import free_port
from support.servers import Server, serving
from support.trials import write_trials
from support.waiting import within

PROXIES = ("http_proxy", "https_proxy", "all_proxy")

PLAY = """
import asyncio, sys
from agent_env.training.sessions import Shared, opened, read_tasks

async def main(shared):
    assert (await read_tasks(shared)).splits["eval"][0].id == "held-out"
    async with opened(shared, "train", 0) as session:
        print((await session.call("echo", {"text": "here"})).text)

asyncio.run(main(Shared(sys.argv[1])))
"""


if not socket.has_dualstack_ipv6():
    pytest.skip("no IPv6 here", allow_module_level=True)


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on all addresses of this machine, of both protocols."""
    with serving(write_trials(tmp_path_factory.mktemp("trials")), "--host", "::", "--insecure") as server:
        assert server.url.startswith("http://[::]:")
        yield server


def proxied() -> dict[str, str]:
    """An environment in which every proxy is one that does not answer."""
    dead = f"http://127.0.0.1:{free_port()}"
    names = {name.upper() for name in PROXIES} | set(PROXIES)
    kept = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    return {**kept, **dict.fromkeys(names, dead)}


def ran(*command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


HOSTS = ("127.0.0.1", "localhost", "[::1]", "[::]", "0.0.0.0", "[::ffff:127.0.0.1]")


def test_this_machine_is_reached_without_a_proxy_of_the_environment(
    everywhere: Server, tmp_path: Path, fault: Fault
) -> None:
    fault.fault = "a proxy in the environment"
    fault.injected = f"all of a proxy's variables at a dead port; a server by {len(HOSTS)} names of this machine"
    for host in HOSTS:
        played = ran("-c", PLAY, everywhere.url.replace("[::]", host), environment=proxied())
        assert (played.returncode, played.stdout, played.stderr) == (0, "here\n", ""), host
    # What `agent-env train` and `eval` read their tasks with.
    wrote = ran("-m", "agent_env.training.verl", everywhere.url, str(tmp_path / "rows"), environment=proxied())
    assert (wrote.returncode, wrote.stderr) == (0, "")
    assert (tmp_path / "rows" / "train.parquet").exists()
    fault.seen = "tasks read, an episode played and rows written by each name"
    fault.lost = "nothing"


def test_another_machine_is_reached_by_the_proxy(fault: Fault) -> None:
    fault.fault = "a proxy in the environment, and a server on another machine"
    fault.injected = "http_proxy, https_proxy and all_proxy at a socket of the test's"
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(60)
        environment = {**proxied(), **dict.fromkeys(PROXIES, f"http://127.0.0.1:{proxy.getsockname()[1]}")}
        command = [sys.executable, "-c", PLAY, "http://192.0.2.1:1"]
        player = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        try:
            asked, _ = proxy.accept()
            with asked:
                assert asked.recv(4096).startswith(b"GET http://192.0.2.1:1/list_environments ")
        finally:
            player.kill()
            player.communicate()
    fault.seen = "the proxy is asked for it"
    fault.lost = "nothing"


async def test_a_server_and_a_client_with_ipv6_alone(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "IPv6 only"
    fault.injected = "a server on ::1"
    with serving(write_trials(tmp_path), "--host", "::1") as server:
        assert server.url.startswith("http://[::1]:")
        shared = Shared(server.url)
        assert [row.id for row in (await read_tasks(shared)).splits["eval"]] == ["held-out"]
        async with opened(shared, "train", 0) as session:
            assert (await session.call("echo", {"text": "six"})).text == "six"
        fault.seen = f"tasks read and an episode played at {server.url.rpartition(':')[0]}"
    fault.lost = "nothing"


WRITE = """
import socket, sys, time

def slow(*_, **__):
    time.sleep(60)

socket.getaddrinfo = slow
sys.argv = ["write", "http://slow.test:1", sys.argv[1], "--connect-timeout", "0.3"]
from agent_env.training.verl.__main__ import main
main()
"""


def test_a_name_that_nobody_resolves_costs_a_command_its_connect_timeout(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "slow DNS"
    fault.injected = "a resolver that takes 60 s, a connect timeout of 0.3 s"
    began = time.monotonic()
    wrote = ran("-c", WRITE, str(tmp_path / "rows"), environment=dict(os.environ))
    took = time.monotonic() - began
    assert (wrote.returncode, wrote.stdout) == (2, "")
    assert "no connection in 0.3 s" in wrote.stderr
    assert took < 55
    fault.seen = f"the command ends with its reason after {took:.0f} s, most of them Python's start"
    fault.lost = "nothing"


JUMPS = """
import random as _random, time as _time

_clock, _years = _time.time, _random.Random(1)
_time.time = lambda: _clock() + _years.choice((-1, 0, 1)) * 365 * 86400
"""


async def test_clocks_that_jump_by_years_change_no_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    fault.fault = "clock jumps"
    fault.injected = "the wall clocks of client and server a year back or ahead at every look"
    clock, years = time.time, random.Random(2)
    monkeypatch.setattr(time, "time", lambda: clock() + years.choice((-1, 0, 1)) * 365 * 86400)
    folder = write_trials(tmp_path)
    env = folder / "env.py"
    env.write_text(f"{JUMPS}\n{env.read_text()}")  # in `threads`, the server's own clock
    options = ["--max-sessions", "1", "--admission-timeout", "0.5", "--peer-timeout", "4"]
    with serving(folder, *options) as server:
        async with opened(Shared(server.url), "train", 0) as session:
            # Longer than a silent peer is waited for: pings come when they should.
            assert (await session.call("nap", {"seconds": 6})).text == "awake"
            began = time.monotonic()
            with pytest.raises(ServerAtCapacity, match=r"waited \d\.\d s"):
                async with opened(Shared(server.url), "train", 0, deadline=began + 2):
                    pass
            assert 2 <= time.monotonic() - began < within(4)
        shared = Shared(server.url, call_timeout=1)
        async with opened(shared, "train", 0) as session:
            began = time.monotonic()
            with pytest.raises(CallTimedOut, match="no answer in 1 s"):
                await session.call("nap", {"seconds": 60})
            assert 1 <= time.monotonic() - began < within(3)
        assert server.log == []
    fault.seen = "a step longer than the peer timeout goes on; a wait of 2 s and a deadline of 1 s end when they should"
    fault.lost = "nothing"
