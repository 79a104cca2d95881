"""``/ws`` of a real server over real sockets: frames, capacity, clients that go away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from support.servers import Client, Server, client, serving
from support.trials import write_trials
from support.waiting import until, within

SLOTS = 2
FEW_SLOTS = ["--max-sessions", str(SLOTS), "--admission-timeout", "1"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Server]:
    # Patient: these clients are busy, not gone.
    folder = write_trials(tmp_path_factory.mktemp("trials"), "threads", log=str(log))
    with serving(folder, *FEW_SLOTS, "--peer-timeout", "100") as server:
        yield server


@pytest.fixture(autouse=True)
def fresh_log(log: Path) -> None:
    log.write_text("")


async def all_slots_free(server: Server, within: float) -> float:
    """Seconds until `SLOTS` sessions could be opened at once, none of them by waiting long."""
    began = time.monotonic()
    while True:
        async with client(server.ws) as first, client(server.ws) as second:
            answers = [await first.ask("state"), await second.ask("state")]
            if all("code" not in answer for answer in answers):
                return time.monotonic() - began
        assert time.monotonic() - began < within


async def test_an_episode(server: Server) -> None:
    async with client(server.ws) as guest:
        assert (await guest.reset("train", 1))["metadata"]["task"]["turns"] == 2
        assert await guest.text("echo", text="hello") == "hello"
        assert (await guest.call("end_turn", response="1"))["metadata"]["prompt"] == "Say yes."
        data = await guest.call("end_turn", response="yes")
        assert (data["done"], data["reward"]) == (True, 1.0)


async def test_bad_frames_cost_one_error_each_and_the_session_lives(server: Server) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        for frame, code in [
            ("nonsense", "INVALID_JSON"),
            ('{"type": "step", "data": {"x": NaN}}', "INVALID_JSON"),
            ("[" * 50_000, "INVALID_JSON"),
            ('{"type": "\\ud800"}', "INVALID_JSON"),
            ("[1]", "VALIDATION_ERROR"),
            (b'{"type": "state"}', "VALIDATION_ERROR"),
            ('{"type": "jump"}', "UNKNOWN_TYPE"),
            ('{"type": "step", "data": {"type": "call_tool"}}', "VALIDATION_ERROR"),
        ]:
            answer = await guest.frame(frame)
            assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert await guest.text("echo", text="still here") == "still here"


async def test_requests_sent_ahead_are_answered_in_order(server: Server) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        for number in range(20):
            await guest.send_call("echo", text=str(number))
        answers = [(await guest.receive())["data"]["observation"]["result"]["data"] for _ in range(20)]
        assert answers == [str(number) for number in range(20)]


async def test_too_many_requests_sent_ahead_end_the_session(server: Server) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        await guest.send_call("nap", seconds=60)
        with pytest.raises(ConnectionClosed) as caught:
            for _ in range(100):
                await guest.send_call("echo", text="a")
            await guest.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1008
        assert "without waiting" in caught.value.rcvd.reason
    await all_slots_free(server, 10)


async def test_close_ends_the_session_politely(server: Server, log: Path) -> None:
    async with client(server.ws) as guest:
        await guest.reset()
        await guest.socket.send('{"type": "close"}')
        with pytest.raises(ConnectionClosed) as caught:
            await guest.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000
        assert [line.split()[0] for line in log.read_text().splitlines()] == ["reset", "close"]


async def test_a_newcomer_at_the_limit_gets_openenvs_refusal(server: Server) -> None:
    async with client(server.ws) as first, client(server.ws) as second:
        await first.ask("state")
        await second.ask("state")
        began = time.monotonic()
        async with client(server.ws) as third:
            answer = await third.frame('{"type": "state"}')
            assert time.monotonic() - began >= 0.9
            assert answer == {
                "type": "error",
                "data": {
                    "message": "Server at capacity: 2/2 sessions active. Cannot accept new connections.",
                    "code": "CAPACITY_REACHED",
                    "active_sessions": 2,
                    "max_sessions": 2,
                },
            }
            with pytest.raises(ConnectionClosed) as caught:
                await third.receive()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1000


async def test_a_waiting_newcomers_request_is_answered_once_a_slot_is_free(server: Server) -> None:
    async with client(server.ws) as first:
        await first.ask("state")
        async with client(server.ws) as second:
            await second.ask("state")
            async with client(server.ws) as third:
                waiting = asyncio.create_task(third.reset())
                await asyncio.sleep(0.2)
                assert not waiting.done()
                await second.socket.close()
                assert (await waiting)["done"] is False


async def test_a_waiter_that_goes_away_leaves_the_queue(server: Server) -> None:
    async with client(server.ws) as first, client(server.ws) as second:
        await first.ask("state")
        await second.ask("state")
        async with client(server.ws) as gone:
            await gone.socket.send('{"type": "state"}')
        async with client(server.ws) as third:
            waiting = asyncio.create_task(third.ask("state"))
            await asyncio.sleep(0.1)
            await second.socket.close()
            assert "code" not in await waiting


@pytest.mark.parametrize("tool", ["sleep", "nap"])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_client_that_goes_away_frees_its_slot_at_once(server: Server, log: Path, tool: str, how: str) -> None:
    async with client(server.ws) as other:
        await other.ask("state")
        async with client(server.ws) as guest:
            await guest.reset()
            await guest.send_call(tool, seconds=30 if tool == "sleep" else 60)
            await until(lambda: tool in log.read_text())
            if how == "abort":
                # A reset instead of a close frame, as from a process that was killed.
                guest.socket.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0"
                )
                guest.socket.transport.abort()
            else:
                await guest.socket.close()
            left = time.monotonic()
            async with client(server.ws) as newcomer:
                assert (await newcomer.reset())["done"] is False
                assert time.monotonic() - left < within(1.0)
    if tool == "nap":
        await until(lambda: "cancelled" in log.read_text())


async def test_a_session_id_that_nobody_made_is_refused(server: Server) -> None:
    async with client(server.ws + "?session_id=nobody") as guest:
        answer = await guest.receive()
        assert answer["data"]["code"] == "SESSION_ERROR"
        with pytest.raises(ConnectionClosed):
            await guest.receive()


async def play(guest: Client, number: int) -> None:
    await guest.reset("all", number % 2)
    for call in range(3):
        assert await guest.text("echo", text=f"{number}-{call}") == f"{number}-{call}"


async def test_many_clients_none_of_which_leaks_a_slot(server: Server) -> None:
    async def come_and_go(number: int) -> None:
        while True:
            async with client(server.ws, open_timeout=60) as guest:
                try:
                    await play(guest, number)
                except (AssertionError, KeyError, ConnectionClosed):
                    continue
                if number % 3 == 0:
                    await guest.send_call("nap", seconds=60)
                return

    await asyncio.gather(*(come_and_go(number) for number in range(24)))
    await all_slots_free(server, 10)
