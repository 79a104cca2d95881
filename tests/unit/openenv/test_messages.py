"""Frames: what is refused, with OpenEnv's codes and its models as the judge, and what answers look like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env.errors import EpisodeError
from agent_env.observation import Observation
from agent_env.openenv import messages
from agent_env.tools import ToolResult, ToolSpec


def refused(frame: str | bytes | None) -> dict[str, Any]:
    """The ``data`` of the error frame that answers `frame`."""
    with pytest.raises(messages.Refused) as caught:
        messages.parse(frame)
    answer = json.loads(caught.value.frame)
    assert answer["type"] == "error"
    data: dict[str, Any] = answer["data"]
    return data


def test_each_kind_of_request() -> None:
    assert messages.parse('{"type":"reset"}') == messages.Reset()
    reset = messages.parse('{"type":"reset","data":{"split":"train","index":1}}')
    assert isinstance(reset, messages.Reset)
    assert reset.data == {"split": "train", "index": 1}
    step = messages.parse('{"type":"step","data":{"type":"call_tool","tool_name":"a","arguments":{"b":1}}}')
    assert isinstance(step, messages.Step)
    assert step.data == messages.CallTool("a", {"b": 1})
    same = messages.parse(
        '{"type":"step","data":{"type":"call_tool","tool_name":"a","arguments":{"b":1},"metadata":{}}}'
    )
    assert same == step
    listing = messages.parse('{"type":"step","data":{"type":"list_tools","metadata":{}}}')
    assert isinstance(listing, messages.Step)
    assert isinstance(listing.data, messages.ListTools)
    assert isinstance(messages.parse('{"type":"state"}'), messages.State)
    assert isinstance(messages.parse('{"type":"close"}'), messages.Close)
    rpc = messages.parse('{"type":"mcp","data":{"method":"tools/list"}}')
    assert isinstance(rpc, messages.Rpc)
    assert rpc.data == {"method": "tools/list"}


NO_JSON = [
    "",
    "{",
    "hello",
    '{"type":"state"} x',
    '{"a": NaN}',
    '{"a": 1e999}',
    '"\\ud800"',
    '{"type":"\\udfff"}',
    "\x00",
    '"\x00"',
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
]


@pytest.mark.parametrize("frame", NO_JSON, ids=range(len(NO_JSON)))
def test_what_is_no_json(frame: str) -> None:
    data = refused(frame)
    assert data["code"] == "INVALID_JSON"
    assert data["message"].startswith("Invalid JSON: ")


@pytest.mark.parametrize(
    "frame", ["[]", '[{"type":"state"}]', "1", "true", "null", '"reset"', b'{"type":"state"}', None]
)
def test_what_is_no_object_or_no_text(frame: str | bytes | None) -> None:
    assert refused(frame)["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("kind", ['"rest"', '""', "1", "null", '["reset"]', "{}"])
def test_an_unknown_type(kind: str) -> None:
    data = refused(f'{{"type":{kind}}}')
    assert data["code"] == "UNKNOWN_TYPE"
    assert data["message"].startswith("Unknown message type: ")
    assert refused("{}") == {"code": "UNKNOWN_TYPE", "message": "Unknown message type: "}


def test_a_long_unknown_type_is_not_sent_back_whole() -> None:
    assert len(refused(json.dumps({"type": "x" * 10_000}))["message"]) < 200


def test_every_problem_of_a_request_at_once() -> None:
    frame = {"type": "step", "data": {"type": "call_tool", "tool_name": 1, "arguments": [], "extra": 2}, "more": 3}
    data = refused(json.dumps(frame))
    assert (data["code"], data["message"]) == ("VALIDATION_ERROR", "Invalid message")
    assert {".".join(map(str, item["loc"])).removeprefix("step.") for item in data["errors"]} == {
        "data.call_tool.tool_name",
        "data.call_tool.arguments",
        "data.call_tool.extra",
        "more",
    }


BAD = [
    {"type": "reset", "data": []},
    {"type": "reset", "more": 1},
    {"type": "step"},
    {"type": "step", "data": {}},
    {"type": "step", "data": {"type": "jump"}},
    {"type": "step", "data": {"type": "call_tool"}},
    {"type": "step", "data": {"type": "list_tools", "x": 1}},
    {"type": "state", "data": {}},
    {"type": "close", "data": {}},
    {"type": "mcp"},
]


@pytest.mark.parametrize("frame", BAD, ids=json.dumps)
def test_what_openenv_refuses_is_refused(frame: dict[str, Any]) -> None:
    assert refused(json.dumps(frame))["code"] == "VALIDATION_ERROR"


any_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40)
@given(any_json)
def test_any_other_json_is_refused(value: Any) -> None:
    assert refused(json.dumps(value))["code"] in ("INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR")


def test_an_observation_frame_has_its_metadata_for_typed_and_generic_clients() -> None:
    frame = json.loads(messages.observed(messages.observation({"tools": []}, {"a": 1}, reward=0.5, done=True)))
    assert frame == {
        "type": "observation",
        "data": {
            "observation": {"tools": [], "metadata": {"a": 1}},
            "reward": 0.5,
            "done": True,
            "metadata": {"a": 1},
        },
    }


def test_tools_are_listed_with_end_turn_last() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object", "properties": {}})
    add, end_turn = messages.listing((spec,))
    assert add == {"name": "add", "description": "Add.", "input_schema": {"type": "object", "properties": {}}}
    assert end_turn["name"] == "end_turn"
    assert end_turn["input_schema"]["required"] == ["response"]


def test_a_tools_answer() -> None:
    assert messages.tool_answer("add", ToolResult("3")) == {
        "tool_name": "add",
        "result": {
            "content": [{"type": "text", "text": "3"}],
            "structured_content": None,
            "meta": None,
            "data": "3",
            "is_error": False,
        },
        "error": None,
    }
    structured = messages.tool_answer("add", ToolResult('{"sum": 3}', data={"sum": 3}))["result"]
    assert structured["structured_content"] == {"sum": 3}
    assert structured["data"] == '{"sum": 3}'


def test_what_a_tool_refused_is_a_result_and_a_call_that_ran_nothing_an_error() -> None:
    said = messages.tool_answer("add", ToolResult("not so", True, "tool_error"))
    assert said["error"] is None
    assert said["result"]["is_error"] is True
    unknown = messages.tool_answer("ad", ToolResult("no such tool", True, "tool_not_found"))
    assert unknown == {
        "tool_name": "ad",
        "result": None,
        "error": {"error_type": "tool_not_found", "message": "no such tool"},
    }


def test_an_observation_of_the_environment() -> None:
    seen = messages.seen(Observation("a room", actions=("go",), reward=0.25, terminated=True, info={"n": {1}}))
    assert seen is not None
    key = seen.pop("state")
    assert seen == {
        "text": "a room",
        "images": [],
        "actions": ("go",),
        "reward": 0.25,
        "terminated": True,
        "truncated": False,
        "info": {"n": [1]},
    }
    assert key == Observation("a room").key
    assert messages.seen(None) is None
    with pytest.raises(EpisodeError, match=r"Observation\.info"):
        messages.seen(Observation("odd", info={"what": object()}))


def test_the_pictures_of_an_answer_are_in_its_content_alone() -> None:
    there, named = "data:image/png;base64,AAAA", "https://example.org/door.png"
    seen = Observation("a door", images=(named, there))
    answer = messages.tool_answer("look", ToolResult("a door", observation=seen))
    block = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert answer["result"]["content"] == [{"type": "text", "text": "a door"}, block]
    of_answer, of_reset = messages.seen(seen, answered=True), messages.seen(seen)
    assert of_answer is not None
    assert of_answer["images"] == [named]
    assert of_answer["state"] == seen.key
    assert of_reset is not None
    assert of_reset["images"] == [named, there]


def test_text_that_is_no_unicode_is_made_readable() -> None:
    assert json.loads(messages.encode({"a\ud800": ["b\udfff", ("c",)]})) == {"a\ufffd": ["b\ufffd", ["c"]]}
