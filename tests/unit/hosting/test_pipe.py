"""What goes between a server and its workers arrives as it was."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.errors import EpisodeError, ScoreError
from agent_env.hosting import pipe
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def sent(message: pipe.Request) -> pipe.Request:
    body = pipe.encode(message)
    assert pipe.LENGTH.unpack(body[:4]) == (len(body) - 4,)
    return pipe.decode_request(body[4:])


def answered(message: pipe.Reply) -> pipe.Reply:
    return pipe.decode_reply(pipe.encode(message)[4:])


@given(env=st.dictionaries(st.text(), json_values, max_size=3), seed=st.integers(), prompt=st.text())
def test_a_task_arrives_as_it_was(env: dict[str, Any], seed: int, prompt: str) -> None:
    turns = (Turn("a", prompt, {"type": "env"}), Turn("b", "", None))
    task = Task("t", turns, "system", env, seed, "name")
    assert sent(pipe.Request("reset", task=task, seed=seed)) == pipe.Request("reset", task=task, seed=seed)


@given(json_values)
def test_arguments_and_answers_arrive_as_they_were(value: Any) -> None:
    assert sent(pipe.Request("call", name="tool", arguments=value)).arguments == value
    result = ToolResult("text", data=value)
    assert answered(pipe.Reply(result=result)).result == result


def test_an_observation_arrives_with_tuples_for_its_lists() -> None:
    seen = Observation("text", ("a", "b"), ("go",), "key", 0.5, True, False, {"a": [1]})
    assert answered(pipe.Reply(observation=seen)).observation == seen
    assert answered(pipe.Reply()).observation is None


@pytest.mark.parametrize("score", [0.1, 1, True, math.inf, -math.inf, {"a": 0.5, "b": 1.0}, {}])
def test_a_score_arrives_as_it_was(score: Any) -> None:
    assert answered(pipe.Reply.of_score(score)).the_score() == score


def test_a_nan_arrives_as_one_and_what_is_no_number_as_its_text() -> None:
    value = answered(pipe.Reply.of_score(math.nan)).the_score()
    assert isinstance(value, float)
    assert math.isnan(value)
    assert answered(pipe.Reply.of_score("0.5")).the_score() == "'0.5'"
    assert answered(pipe.Reply.of_score(None)).the_score() == "None"
    with pytest.raises(EpisodeError, match="without a score"):
        answered(pipe.Reply()).the_score()


def test_a_failure_is_raised_as_what_it_was() -> None:
    with pytest.raises(EpisodeError, match="on fire") as caught:
        answered(pipe.Reply.of_error(EpisodeError("on fire"))).raise_if_failed()
    assert not isinstance(caught.value, ScoreError)
    with pytest.raises(ScoreError, match="step 'a'"):
        answered(pipe.Reply.of_error(ScoreError("step 'a'"))).raise_if_failed()


def test_what_json_cannot_hold_is_refused_and_text_made_readable() -> None:
    with pytest.raises(ValueError, match="NaN"):
        pipe.encode(pipe.Request("call", arguments={"x": Weird(float("nan"))}))
    with pytest.raises(ValueError, match="not JSON-able"):
        pipe.encode(pipe.Reply(result=ToolResult("a", data=object())))
    assert sent(pipe.Request("score", reply="a\ud800b")).reply == "a\ufffdb"


class Weird:
    """Like numpy's scalars, to JSON."""

    def __init__(self, value: float) -> None:
        self.value = value

    def tolist(self) -> float:
        return self.value


@pytest.mark.parametrize("body", [b"null", b"[]", b"{", b'{"result": 1}', b'{"observation": {"text": 1}}', b"\xff"])
def test_nonsense_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        pipe.decode_reply(body)
