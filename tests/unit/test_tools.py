"""What a model is told of a tool, and what becomes of a call."""

import asyncio
import dataclasses
import datetime
import enum
import math
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import TypedDict  # pydantic takes typing's own from Python 3.12 on

from agent_env import Environment, EpisodeError, InputError, Observation, TextEnvironment, ToolError, tool
from agent_env.tools import ToolResult, call_tool, tools_of


class Kind(enum.Enum):
    SOFT = "soft"
    HARD = "hard"


class Point(BaseModel):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    fast: bool
    label: str


@dataclasses.dataclass
class Box:
    corner: Point
    kind: Kind = Kind.SOFT


class Desk(Environment):
    """Every kind of signature; each tool answers with what it was given."""

    def reset(self, task, seed):
        return None

    @tool
    def place(self, box: Box, options: Options, tags: set[str] | None = None) -> str:
        """Place a box.

        Args:
            box: where it goes.
            tags: its labels.
        """
        return repr((box, options, tags))

    @tool
    async def wait(self, until: datetime.date, mode: Literal["busy", "idle"] = "idle") -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"until": until, "mode": mode}

    @tool
    def pick(self, which: int | str, share: float = 1, sure: bool = False):
        return repr((which, share, sure))

    @tool
    def bounded(self, n: Annotated[int, Field(ge=1, le=3)], json: str = Field("x", max_length=2), schema: int = 0):
        return repr((n, json, schema))

    @tool
    def lenient(self, n: Annotated[int, BeforeValidator(int)]):
        return repr(n)

    @tool
    def grow(self, items: list[int] = []):  # noqa: B006 - the shared default is the point
        items.append(1)
        return items

    @tool
    def look(self) -> Observation:
        return Observation("a desk", actions=("pick",))

    @tool
    def refuse(self):
        raise ToolError("not now")

    @tool
    def crash(self):
        raise KeyError("lamp")

    @tool
    def leave(self):
        raise SystemExit(3)

    @tool
    def measure(self):
        return {"cost": [math.nan]}

    @tool
    def reveal(self):
        return object()

    @tool
    def nothing(self):
        return None

    @tool
    def validated(self, n: Annotated[int, BeforeValidator({}.__getitem__)]): ...


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


async def call(name, **arguments) -> ToolResult:
    return await call_tool(Desk(), name, arguments)


def spec(name):
    return next(spec for spec in tools_of(Desk) if spec.name == name)


# --- schemas --------------------------------------------------------------------------------------------------


def test_schema_of_nested_types():
    schema = spec("place").parameters
    assert schema["required"] == ["box", "options"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["box"] == {"$ref": "#/$defs/Box", "description": "where it goes."}
    assert schema["properties"]["tags"]["description"] == "its labels."
    assert schema["properties"]["tags"]["default"] is None
    assert schema["$defs"]["Kind"]["enum"] == ["soft", "hard"]


def test_schema_has_no_title_that_repeats_a_name():
    assert spec("pick").parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "which": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "share": {"type": "number", "default": 1},
            "sure": {"type": "boolean", "default": False},
        },
        "required": ["which"],
    }


def test_schema_keeps_bounds_and_names_that_pydantic_uses_itself():
    properties = spec("bounded").parameters["properties"]
    assert properties["n"] == {"type": "integer", "minimum": 1, "maximum": 3}
    assert properties["json"] == {"type": "string", "default": "x", "maxLength": 2}
    assert properties["schema"] == {"type": "integer", "default": 0}


def test_every_schema_is_valid_and_in_openai_form():
    for tool_spec in tools_of(Desk):
        jsonschema.Draft202012Validator.check_schema(tool_spec.parameters)
        assert tool_spec.openai() == {
            "type": "function",
            "function": {
                "name": tool_spec.name,
                "description": tool_spec.description,
                "parameters": tool_spec.parameters,
            },
        }
    assert spec("place").description == "Place a box."


def test_tools_come_in_order_of_definition_a_base_class_first():
    class Shelf(Desk):
        @tool
        def stack(self): ...

        def look(self):
            """Look at the shelf."""
            return "a shelf"

        crash = None

    names = [s.name for s in tools_of(Desk)]
    assert names[:3] == ["place", "wait", "pick"]
    assert [s.name for s in tools_of(Shelf)] == [n for n in names if n != "crash"] + ["stack"]
    assert next(s for s in tools_of(Shelf) if s.name == "look").description == "Look at the shelf."


def test_text_environment_has_one_tool():
    assert [s.name for s in tools_of(TextEnvironment)] == ["act"]
    assert tools_of(TextEnvironment)[0].parameters["required"] == ["action"]


async def test_text_environment_steps_plain_or_async():
    class Plain(TextEnvironment):
        def step(self, action):
            return Observation(action.upper(), reward=0.5)

    class Later(TextEnvironment):
        async def step(self, action):
            return Observation(action.upper(), terminated=True)

    answer = await call_tool(Plain(), "act", {"action": "go"})
    assert (answer.text, answer.observation.reward) == ("GO", 0.5)
    assert (await call_tool(Later(), "act", {"action": "go"})).observation.terminated


# --- problems of a class --------------------------------------------------------------------------------------


class Broken(Environment):
    @tool
    def end_turn(self, x): ...

    @tool
    def spread(self, *args: int, **more: int): ...

    @tool
    def typed(self, callback: type[Kind] | asyncio.Event): ...

    @tool
    def unknown(self, x: "Nowhere"): ...  # noqa: F821

    @tool
    def documented(self, x: int):
        """Do it.

        Args:
            y: a thing.
        """

    @staticmethod
    @tool
    def static(x: int): ...

    @tool
    def yields(self):
        yield 1

    @tool
    def positional(self, x: int, /): ...

    @tool
    def default(self, x: int = asyncio.Event): ...

    @tool
    def öffnen(self): ...

    @tool
    def alone(): ...


def test_all_problems_of_a_class_at_once():
    with pytest.raises(InputError) as caught:
        tools_of(Broken)
    found = {}
    for problem in caught.value.problems:
        place, name = problem.where.split(" ")
        assert place.startswith("test_tools.py:")
        found.setdefault(name.removeprefix("Broken."), []).append(problem.what)
    assert found.pop("end_turn") == ["the name 'end_turn' is reserved", "argument 'x' has no annotation"]
    assert found.pop("spread") == ["*args: int has no schema", "**more: int has no schema"]
    assert "its arguments have no JSON Schema" in found.pop("typed")[0]
    assert "Nowhere" in found.pop("unknown")[0]
    assert found.pop("documented") == ["the docstring's Args names 'y', which is no argument"]
    assert found.pop("static") == ["a tool is a plain method, not a staticmethod"]
    assert found.pop("yields") == ["a tool returns its answer; this one yields"]
    assert found.pop("positional") == ["'x' is positional-only"]
    assert "its arguments have no JSON Schema" in found.pop("default")[0]
    assert "in a tool's name" in found.pop("öffnen")[0]
    assert found.pop("alone") == ["a tool is a method, and this one takes no self"]
    assert found == {}


# --- calls ----------------------------------------------------------------------------------------------------


async def test_arguments_arrive_as_their_types():
    answer = await call("place", box={"corner": {"x": 1}, "kind": "hard"}, options={"fast": True}, tags=["a"])
    assert answer.text == repr((Box(Point(x=1), Kind.HARD), {"fast": True}, {"a"}))
    answer = await call("wait", until="2030-05-01")
    assert answer == ToolResult('{"until": "2030-05-01", "mode": "idle"}', data={"until": "2030-05-01", "mode": "idle"})
    assert (await call("pick", which="3")).text == repr(("3", 1, False))
    assert (await call("bounded", n=1)).text == repr((1, "x", 0))
    assert (await call("bounded", n=1, json="y", schema=2)).text == repr((1, "y", 2))


async def test_a_mutable_default_is_not_shared_between_calls():
    assert (await call("grow")).data == [1]
    assert (await call("grow")).data == [1]


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("place", {"options": {}}, "- box: missing, and required"),
        (
            "place",
            {"box": {"corner": {"x": "1"}}, "options": {}},
            '- box.corner.x: Input should be a valid integer, got "1"',
        ),
        (
            "place",
            {"box": {"corner": {"x": 1}, "kind": "wet"}, "options": {}},
            "- box.kind: Input should be 'soft' or 'hard'",
        ),
        ("wait", {"until": "soon"}, "- until: "),
        ("wait", {"until": "2030-05-01", "mode": "lazy"}, "- mode: Input should be 'busy' or 'idle', got \"lazy\""),
        ("pick", {"which": 1, "sure": 1}, "- sure: Input should be a valid boolean, got 1"),
        ("pick", {"which": 1.5}, "- which."),
        ("pick", {"which": 1, "share": math.nan}, "- share: NaN and infinities are not JSON"),
        ("bounded", {"n": 4}, "- n: Input should be less than or equal to 3, got 4"),
        ("bounded", {"n": 1, "sceme": 2}, "- sceme: no such argument; did you mean 'schema'?"),
        ("bounded", {"n": 1, "q": 2}, "- q: no such argument; known: n, json, schema"),
        ("look", {"at": 2}, "- at: no such argument; known: none"),
        ("pick", ["which"], 'expected a JSON object, got ["which"]'),
        ("pick", None, "expected a JSON object, got null"),
        ("pick", {"which": {1, 2}}, "not JSON serializable"),
        ("pick", {"which": 10**5000}, "not JSON: Exceeds the limit"),
        ("pick", {"which": "\ud800"}, "- which: the text has half a character in it"),
        ("pick", {"which": deep(500)}, "Invalid arguments for pick:"),
        ("pick", {"which": deep(100_000)}, "not JSON: maximum recursion depth exceeded"),
        ("lenient", {"n": [1]}, "int() argument must be a string"),
        ("lenient", {"n": "one"}, "- n: Value error, invalid literal for int()"),
    ],
)
async def test_wrong_arguments_are_text_that_names_the_field(name, arguments, complaint):
    answer = await call_tool(Desk(), name, arguments)
    assert (answer.is_error, answer.kind) == (True, "invalid_args")
    assert answer.text.startswith(f"Invalid arguments for {name}:")
    assert complaint in answer.text


async def test_every_wrong_argument_is_named_in_one_answer():
    answer = await call("pick", share="much", sure="yes", extra=1)
    assert [line.split(":")[0] for line in answer.text.splitlines()[1:]] == ["- which", "- share", "- sure", "- extra"]


async def test_wrong_arguments_run_nothing():
    ran = []

    class Once(Environment):
        @tool
        def go(self, n: int):
            ran.append(n)

    for arguments in ({}, {"n": "1"}, {"n": True}, {"n": 1, "m": 2}, {"n": 1.0}, None):
        assert (await call_tool(Once(), "go", arguments)).is_error
    assert ran == []


async def test_an_annotation_may_be_more_lenient():
    assert (await call("lenient", n="3")).text == "3"


async def test_an_unknown_tool_is_text_with_the_known_ones():
    answer = await call("plaice")
    assert (answer.is_error, answer.kind) == (True, "tool_not_found")
    assert "Did you mean 'place'? The tools are: place, wait" in answer.text


async def test_only_tools_can_be_called():
    for name in ("reset", "__init__", "score"):
        assert (await call(name)).kind == "tool_not_found"


async def test_what_a_tool_may_answer():
    look = await call("look")
    assert (look.text, look.observation.actions, look.data) == ("a desk", ("pick",), None)
    assert (await call("nothing")).text == "null"
    assert await call("refuse") == ToolResult("not now", True, "tool_error")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crash", "tool 'crash' raised KeyError: 'lamp'"),
        ("leave", "tool 'leave' raised SystemExit: 3"),
        ("measure", r"tool 'measure' returned NaN or an infinity at \.cost\[0\]"),
        ("reveal", "tool 'reveal' returned a object that is not JSON-able"),
    ],
)
async def test_failures_of_the_author_name_the_tool(name, message):
    with pytest.raises(EpisodeError, match=message):
        await call(name)


async def test_a_validator_that_breaks_is_a_failure_of_the_author():
    with pytest.raises(EpisodeError, match="tool 'validated': a validator raised KeyError: 3"):
        await call("validated", n=3)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["soft", "x", "3"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "corner", "kind"]), inner),
    max_leaves=5,
)


class Echo(Environment):
    """Answers with the types of what arrived, for the law below."""

    @tool
    def echo(self, n: int | None, f: float, flag: bool, kind: Kind, point: Point, rest: list[str | int] | None = None):
        return "ran"


def often(*valid):
    """One of `valid`, which fit, or any value at all, which mostly does not."""
    return st.sampled_from(valid) | st.sampled_from(valid) | st.sampled_from(valid) | VALUES


@given(
    st.fixed_dictionaries(
        {
            "n": often(None, 3),
            "f": often(0.5, 2),
            "flag": often(True, False),
            "kind": often("soft", "hard"),
            "point": often({"x": 1}, {"x": 1, "y": 2}, {"x": 1, "z": 2}),
        },
        optional={"rest": often(None, [], [1, "3"]), "z": VALUES},
    )
)
def test_what_runs_fits_the_schema(arguments):
    """Nothing runs that the schema, as the model saw it, does not allow; the one thing stricter is ``3.0`` for 3."""
    answer = asyncio.run(call_tool(Echo(), "echo", arguments))
    validator = jsonschema.Draft202012Validator(tools_of(Echo)[0].parameters)
    if not answer.is_error:
        validator.validate(arguments)
    elif not any(isinstance(v, float) and v.is_integer() for v in _leaves(arguments)):
        assert not validator.is_valid(arguments)


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
