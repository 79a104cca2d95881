"""Reading answers: whatever JSON comes, it is an answer or one of the errors a session knows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env.errors import NotATaskServer, SessionError
from agent_env.training.answers import Answer, NextTurn, answer_of, end_of, metadata_of, openai_tool, turn_of

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, float("nan"), float("inf"), "", "x", "é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["observation", "metadata", "result", "error", "content", "data", "text", "type", "scores"])
            | st.sampled_from(["x", "é"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["observation", "metadata", "reward", "done"]), anything))
@settings(deadline=None)
def test_any_answer_is_read_or_is_a_session_error(data):
    try:
        metadata = metadata_of(data, "x")
        assert isinstance(answer_of(data, metadata, "tool"), Answer)
        end_of(data, metadata, "x")
        assert isinstance(turn_of(data, metadata, "x"), NextTurn)
    except SessionError:
        pass


def test_metadata_may_stand_beside_the_observation():
    assert metadata_of({"observation": {}, "metadata": {"prompt": "p"}}, "x") == {"prompt": "p"}
    assert metadata_of({"observation": {"metadata": {}}, "metadata": {"prompt": "p"}}, "x") == {}


@pytest.mark.parametrize(
    "result", [{"prompt": "p", "system_prompt": "s"}, {"data": {"prompt": "p", "system_prompt": "s"}}]
)
def test_the_next_turn_is_in_the_result_or_in_its_data(result):
    assert turn_of({"observation": {"result": result}}, {}, "x") == NextTurn("p", "s")


def test_a_tool_keeps_its_whole_schema():
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"enum": [1, "x"]}}}
    function = openai_tool({"name": "t", "description": None, "input_schema": schema}, "x")["function"]
    assert function == {"name": "t", "description": "", "parameters": schema}


def test_a_tools_schema_keeps_its_order():
    schema = {"additionalProperties": False, "properties": {}, "type": "object"}
    function = openai_tool({"name": "t", "input_schema": schema}, "x")["function"]
    assert list(function["parameters"]) == ["additionalProperties", "properties", "type"]
    assert openai_tool({"name": "t"}, "x")["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("tool", [None, "add", {}, {"name": 3}, {"name": "t", "input_schema": [1]}])
def test_what_is_no_tool(tool):
    with pytest.raises(NotATaskServer, match="is no tool with a name and an input_schema"):
        openai_tool(tool, "x")
