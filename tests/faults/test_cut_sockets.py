"""Sockets that are cut around a tool call, and clients that freeze."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_env.errors import SessionLost
from agent_env.training.rollout import play
from agent_env.training.sessions import Session, Shared
from support.cutting import Where, cutting
from support.faults import Fault
from support.servers import Server, client, serving
from support.trials import write_trials
from support.waiting import until, within


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Server]:
    with serving(write_trials(tmp_path_factory.mktemp("trials"), "processes", log=str(log))) as server:
        yield server


@pytest.mark.parametrize(
    ("where", "ran"), [("before it arrives", 1), ("before its answer", 2), ("in its answer", 2)], ids=str
)
async def test_a_call_whose_socket_is_cut_is_never_sent_twice(
    fault: Fault, server: Server, log: Path, where: Where, ran: int
) -> None:
    fault.fault = f"socket dropped after a tool call was sent, {where}"
    fault.injected = "a proxy cuts the connection at the call"
    log.write_text("")
    async with cutting(server.url) as proxy:

        async def one_call(session: Session) -> None:
            if not proxy.cuts:
                proxy.cut_at(where)
            assert (await session.call("nap", {"seconds": 0})).text == "awake"
            await session.finish("0.5")

        played = await play(Shared(proxy.url), "train", 0, one_call)
        assert proxy.cuts == 1
    assert (played.reward, played.attempts) == (0.5, 2)
    assert [type(error) for error in played.failures] == [SessionLost]
    # A worker is an episode: its process id tells them apart.
    await until(lambda: log.read_text().count("reset") == 2)
    calls = collections.Counter(line.split()[1] for line in log.read_text().splitlines() if line.startswith("nap"))
    assert sum(calls.values()) == ran
    assert set(calls.values()) == {1}
    fault.seen = f"replayed on a new episode; the server ran the call once in {'each' if ran == 2 else 'the second'}"
    fault.lost = "nothing"


FROZEN = """
import sys
from websockets.sync.client import connect

socket = connect(sys.argv[1], compression=None, proxy=None, max_size=None)
socket.send('{"type": "reset"}')
socket.recv()
socket.send(sys.argv[2])
print("sent", flush=True)
sys.stdin.read()
"""
IDLE = {"type": "list_tools"}
INSIDE = {"type": "call_tool", "tool_name": "nap", "arguments": {"seconds": 60}}


@pytest.mark.parametrize("step", [IDLE, INSIDE], ids=["idle", "inside-a-step"])
async def test_a_frozen_client_loses_its_slot_within_ten_seconds(
    tmp_path: Path, fault: Fault, step: dict[str, object]
) -> None:
    fault.fault = f"half-open TCP (peer frozen), {'idle' if step is IDLE else 'inside a step'}"
    fault.injected = "the client's process is stopped (SIGSTOP), with the server's default timeouts and its only slot"
    # The newcomer waits in the queue for as long as it takes.
    options = ("--max-sessions", "1", "--admission-timeout", "100")
    with serving(write_trials(tmp_path, "threads"), *options) as server:
        command = [sys.executable, "-c", FROZEN, server.ws, json.dumps({"type": "step", "data": step})]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"sent\n"
            os.kill(process.pid, signal.SIGSTOP)
            frozen = time.monotonic()
            async with client(server.ws) as newcomer:
                assert (await newcomer.reset())["done"] is False
            took = time.monotonic() - frozen
        finally:
            process.kill()
            process.communicate()
    assert took < within(10.0)
    fault.seen = f"slot freed after {took:.1f} s"
    fault.lost = "the frozen client's episode"
