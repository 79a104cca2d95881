import asyncio
import datetime
import random
from typing import Annotated, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agent_env import Call, Environment, Reply, Turn, tool
from agent_env.checking.draw import CALLS_PER_TOOL, draw, drawn
from agent_env.tools import call_tool, tools_of


class Tree(BaseModel):
    label: Literal["leaf", "node"]
    children: list["Tree"] = []
    weight: float = Field(gt=0, lt=1)


class Everything(Environment):
    """Tools whose arguments have every kind of schema that pydantic makes."""

    @tool
    def numbers(
        self,
        a: Annotated[int, Field(ge=3, le=4)],
        b: Annotated[int, Field(gt=-2, multiple_of=5)],
        c: Annotated[float, Field(lt=-100)],
        d: float,
    ): ...

    @tool
    def texts(
        self, a: Annotated[str, Field(min_length=7, max_length=9)], b: datetime.date, c: Literal["x", 3, None]
    ): ...

    @tool
    def nested(
        self, tree: Tree, pairs: list[tuple[int, str]], table: dict[str, bool], maybe: Tree | int | None = None
    ): ...

    @tool
    def lists(self, a: Annotated[list[int], Field(min_length=2, max_length=3)], b: set[bool] = frozenset()): ...


@pytest.mark.parametrize("name", ["numbers", "texts", "nested", "lists"])
@given(seed=st.integers(0, 10_000))
def test_what_is_drawn_fits_the_schema_and_runs(name, seed):
    spec = next(spec for spec in tools_of(Everything) if spec.name == name)
    arguments = draw(spec.parameters, random.Random(seed))
    jsonschema.Draft202012Validator(spec.parameters).validate(arguments)
    assert not asyncio.run(call_tool(Everything(), name, arguments)).is_error


@given(st.integers(0, 100))
def test_a_seed_always_draws_the_same(seed):
    schema = tools_of(Everything)[2].parameters
    assert draw(schema, random.Random(seed)) == draw(schema, random.Random(seed))


def test_what_was_seen_is_tried():
    schema = {"type": "string"}
    tried = {draw(schema, random.Random(i), ["mail-2"]) for i in range(50)}
    assert "mail-2" in tried
    assert len(tried) > 1


def test_the_player_calls_every_tool_and_replies():
    seen = []
    play = drawn(tools_of(Everything), seen)(Turn("t", "?"), random.Random(0), 0.0)
    calls = [next(play)]
    while isinstance(calls[-1], Call):
        calls.append(play.send(['[{"id": "mail-1"}, 3]' if len(calls) == 1 else "a red-box"]))
    assert isinstance(calls.pop(), Reply)
    assert sorted(call.name for call in calls) == sorted(["numbers", "texts", "nested", "lists"] * CALLS_PER_TOOL)
    assert seen[:3] == ["mail-1", "a", "red-box"]
