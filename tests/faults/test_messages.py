"""What no client should send: one error each, and the session lives."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from support.faults import Fault
from support.servers import Client, Server, client, serving
from support.trials import write_trials

EXAMPLES = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # In processes what comes has the longest way to go.
    with serving(write_trials(tmp_path_factory.mktemp("trials"), "processes"), "--peer-timeout", "100") as server:
        yield server
        assert not [line for line in server.log if "ended by an error" in line or "could not be answered" in line]


def call(tool: Any, arguments: Any) -> str:
    return json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}})


def nested(depth: int) -> str:
    """A call whose argument is arrays in arrays."""
    return call("echo", {"text": 0}).replace("0", "[" * depth + "]" * depth)


def step(**data: Any) -> str:
    return json.dumps({"type": "step", "data": data})


ECHO = {"type": "call_tool", "tool_name": "echo"}
FRAMES: list[tuple[str, list[str | bytes], set[str]]] = [
    ("not JSON", ["nonsense", "", "{", '{"type": "state"} {', "\x00"], {"INVALID_JSON"}),
    ("no object", ["[]", '[{"type": "state"}]', "1", '"state"', "null"], {"VALIDATION_ERROR"}),
    ("binary", [b'{"type": "state"}', b"\xff\xfe", b""], {"VALIDATION_ERROR"}),
    ("deep nesting (10,000)", ["[" * 10_000, "[" * 10_000 + "]" * 10_000, nested(10_000)], {"INVALID_JSON"}),
    ("nesting as deep as JSON may be (900)", [nested(900)], {"invalid_args"}),
    ("NaN and Infinity", ['{"type": NaN}', step(**ECHO, arguments={"text": float("nan")})], {"INVALID_JSON"}),
    ("half a surrogate pair", ['{"type": "\\ud800"}', call("echo", {"text": "a\ud800b"})], {"INVALID_JSON"}),
    ("NUL in a name", ['{"type": "state\\u0000"}', call("ec\0ho", {"text": "a"})], {"UNKNOWN_TYPE", "tool_not_found"}),
    (
        "wrong types",
        [
            '{"type": 1}',
            '{"type": "step"}',
            '{"type": "step", "data": "echo"}',
            '{"type": "reset", "data": [1]}',
            '{"type": "state", "data": {}}',
            call(1, {}),
            call("echo", ["a"]),
            call("echo", "a"),
            step(**ECHO, arguments={"text": "a"}, more=1),
            call("echo", {"text": 1}),
            call("echo", {"text": "a", "more": 1}),
            call("echo", {"text": None}),
            call("nap", {"seconds": 10**400}),
        ],
        {"UNKNOWN_TYPE", "VALIDATION_ERROR", "invalid_args"},
    ),
    (
        "unknown tools",
        [call("ecko", {}), call("", {}), call("x" * 100_000, {}), call("\u202e", {})],
        {"tool_not_found"},
    ),
    (
        "reserved names",
        [
            call(name, {})
            for name in ("reset", "step", "close", "state", "score", "write", "log", "__init__", "__class__")
        ],
        {"tool_not_found"},
    ),
]


def code_of(answer: dict[str, Any]) -> str:
    """What an answer refuses a frame with."""
    if answer["type"] == "error":
        return str(answer["data"]["code"])
    return str(answer["data"]["observation"]["error"]["error_type"])


@pytest.mark.parametrize(("what", "frames", "codes"), FRAMES, ids=[what.replace(" ", "-") for what, _, _ in FRAMES])
async def test_a_message_that_is_none_costs_one_error(
    server: Server, fault: Fault, what: str, frames: list[str | bytes], codes: set[str]
) -> None:
    fault.fault, fault.injected = f"messages: {what}", f"{len(frames)} frames in the middle of an episode"
    async with client(server.ws) as guest:
        await guest.reset()
        for number, frame in enumerate(frames):
            assert code_of(await guest.frame(frame)) in codes, frame[:200]
            # The next answer is the next request's: there was one, not two.
            assert await guest.text("echo", text=str(number)) == str(number)
        assert (await guest.call("end_turn", response="1"))["reward"] == 1.0
    fault.seen = f"one error each ({', '.join(sorted(codes))}); the episode ends with its score"
    fault.lost = "nothing"


async def test_text_with_nul_is_text(server: Server, fault: Fault) -> None:
    fault.fault, fault.injected = "messages: NUL in text", "a tool is called with, and answers, text with a NUL"
    async with client(server.ws) as guest:
        await guest.reset()
        assert await guest.text("echo", text="a\0b") == "a\0b"
    fault.seen, fault.lost = "the same text", "nothing"


async def test_a_hundred_megabytes_close_their_own_session(server: Server, fault: Fault) -> None:
    fault.fault, fault.injected = "messages: 100 MB", "a text frame of 100 MB, where 16 MB are the limit"

    async def goes_on(other: Client, over: asyncio.Event) -> float:
        slowest = 0.0
        while not over.is_set():
            began = time.monotonic()
            assert await other.text("echo", text="unhurt") == "unhurt"
            slowest = max(slowest, time.monotonic() - began)
        return slowest

    process = psutil.Process(server.process.pid)
    async with client(server.ws) as guest, client(server.ws) as other:
        await guest.reset()
        await other.reset()
        over = asyncio.Event()
        bystander = asyncio.create_task(goes_on(other, over))
        before = process.memory_info().rss
        with pytest.raises(ConnectionClosed) as caught:
            await guest.socket.send("x" * 100_000_000)
            await guest.receive()
        grown = (process.memory_info().rss - before) / 2**20
        over.set()
        await bystander
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009
    assert grown < 64
    fault.seen = f"closed with 1009 ({caught.value.rcvd.reason}); {max(0.0, grown):.0f} MB more"
    fault.lost = "the session of who sent it"


odd_text = st.text(max_size=20) | st.sampled_from(["\0", "\ud800", "\u202e", "end_turn", "echo", "__class__"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | odd_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(odd_text, inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from(["reset", "step", "state", "mcp", "call_tool", "list_tools"]) | odd_text
tools = st.sampled_from(["echo", "look", "refuse", "end_turn", "nap", "odd", "reset"]) | odd_text
arguments = st.dictionaries(st.sampled_from(["text", "seconds", "reward", "response"]) | odd_text, values, max_size=3)
actions = st.fixed_dictionaries(
    {}, optional={"type": kinds, "tool_name": tools | values, "arguments": arguments | values, "metadata": values}
)
calls = st.fixed_dictionaries({"type": st.just("call_tool"), "tool_name": tools, "arguments": arguments})
resets = st.fixed_dictionaries(
    {},
    optional={
        "split": st.sampled_from(["train", "eval", "all"]) | values,
        "index": st.integers(-3, 9) | values,
        "seed": values,
        "episode_id": values,
    },
)
rpcs = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": values,
        "method": st.sampled_from(["tools/list", "tools/call"]) | odd_text,
        "params": st.fixed_dictionaries({}, optional={"name": tools, "arguments": arguments}) | values,
    },
)
messages = st.one_of(
    st.fixed_dictionaries({"type": kinds}, optional={"data": actions | resets | rpcs | values, "more": values}),
    st.fixed_dictionaries({"type": st.just("step"), "data": actions | calls}),
    st.fixed_dictionaries({"type": st.just("reset"), "data": resets}),
    st.fixed_dictionaries({"type": st.just("mcp"), "data": rpcs}),
)
sane = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)  # other text is in no text frame
frames = st.one_of(
    messages.map(json.dumps), values.map(json.dumps), sane, st.binary(max_size=200), st.integers(1, 20_000).map(nested)
)


def sleeps(frame: str | bytes) -> bool:
    """Whether it may ask for a long nap, or for the end: those would be answered, too, and not soon or not at all."""
    return isinstance(frame, str) and ('"seconds"' in frame or '"close"' in frame)


def test_any_frame_at_all_has_one_answer(server: Server, fault: Fault) -> None:
    fault.fault, fault.injected = "messages: anything", f"{EXAMPLES} frames made up by hypothesis, in one session"
    kinds_seen: dict[str, int] = {}

    with connect(server.ws, compression=None, proxy=None, max_size=None) as socket:

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(frames.filter(lambda frame: not sleeps(frame)))
        def one_answer(frame: str | bytes) -> None:
            answer = exchange(socket, frame)
            assert answer["type"] in ("observation", "state", "error", "mcp")
            kinds_seen[answer["type"]] = kinds_seen.get(answer["type"], 0) + 1
            mark = str(sum(kinds_seen.values()))
            assert exchange(socket, '{"type": "state"}')["type"] == "state"
            reset = exchange(socket, '{"type": "reset"}')
            assert reset["data"]["done"] is False
            assert exchange(socket, call("echo", {"text": mark}))["data"]["observation"]["result"]["data"] == mark

        one_answer()
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds_seen.items()))
    fault.seen = f"one answer each ({told}); after each the session plays an episode"
    fault.lost = "nothing"


def exchange(socket: ClientConnection, frame: str | bytes) -> dict[str, Any]:
    socket.send(frame)
    answer: dict[str, Any] = json.loads(socket.recv(timeout=60))
    return answer
