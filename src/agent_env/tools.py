"""Tools: an environment's methods as a model sees and calls them.

A method marked `@tool` becomes a `ToolSpec`: its name, its docstring, and a JSON Schema made by pydantic from its
signature. A call is validated against that signature before the method runs. Values must have JSON's own types: ``"3"``
is no integer and ``1`` is no boolean, so that what runs is what the model wrote, and the schema says what is accepted.
A date or an enum is written as its string, a set or a tuple as an array. Who wants more writes it into the annotation:
``Annotated[int, BeforeValidator(int)]``.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import typing
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from agent_env import docstrings
from agent_env.errors import EpisodeError, InputError, Problem, ToolError
from agent_env.jsonable import nonfinite, plain, surrogate
from agent_env.observation import Observation

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

END_TURN = "end_turn"
"""What a model calls to end a turn; every task server has it, beside the environment's own tools."""

RESERVED_TOOLS = frozenset({END_TURN, "list_tools", "call_tool", "reset", "close", "state", "score"})
"""Names the server or `Environment` uses itself."""

_MARK = "__agent_env_tool__"
_CACHE = "__agent_env_tools__"
_Method = TypeVar("_Method", bound=Callable[..., Any])

ErrorKind = Literal["", "tool_not_found", "invalid_args", "tool_error"]


def tool(method: _Method) -> _Method:
    """Mark a method of an `Environment` as a tool that the model may call."""
    setattr(method, _MARK, True)
    return method


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    parameters: dict[str, Any]

    def openai(self) -> dict[str, Any]:
        """In the form of OpenAI's chat API, which chat templates read."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


@dataclass(frozen=True)
class ToolResult:
    """The answer to a tool call.

    Args:
        text: what the model reads.
        is_error: the model's mistake, or a refusal by the author's code; never a failure of the environment.
        kind: of the error, ``""`` if there is none.
        observation: if the tool answered with one; its text is `text`.
        data: a structured answer (`text` is its JSON), None for a str or an Observation.
    """

    text: str
    is_error: bool = False
    kind: ErrorKind = ""
    observation: Observation | None = None
    data: Any = None


@dataclass(frozen=True)
class _Tool:
    """A tool with what validates its arguments: a pydantic model whose fields are ``a0``, ``a1``, …, aliased.

    The aliases keep an argument named ``json`` or ``schema`` from meeting pydantic's own attributes.
    """

    spec: ToolSpec
    model: type[BaseModel]
    names: dict[str, str] = field(default_factory=dict)


def tools_of(env_class: type) -> tuple[ToolSpec, ...]:
    """The tools of an environment class, a base class's before its own, in order of definition.

    Raises:
        InputError: with every problem of every tool, each with its file and line.
    """
    return tuple(entry.spec for entry in _tools(env_class).values())


async def call_tool(env: Any, name: str, arguments: Any) -> ToolResult:
    """Call a tool of `env` by name, with arguments as a model wrote them (a JSON object).

    Returns:
        The answer. An unknown tool, arguments that do not fit and an author's `ToolError` are answers too, with
        `is_error`; the first two ran nothing.

    Raises:
        EpisodeError: the author's code raised something else, or answered with what no JSON text can hold; names the
            tool.
    """
    tools = _tools(type(env))
    entry = tools.get(name)
    if entry is None:
        return not_found(name, tools)
    accepted = _validated(entry, arguments)
    if isinstance(accepted, str):
        return ToolResult(accepted, True, "invalid_args")
    return await answered(name, lambda: getattr(env, name)(**accepted))


def not_found(name: str, tools: Iterable[str]) -> ToolResult:
    """The answer to a call of a tool that is none of `tools`."""
    known = list(tools)
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ToolResult(f"There is no tool {name!r}.{hint} The tools are: {', '.join(known)}.", True, "tool_not_found")


async def answered(name: str, call: Callable[[], Any]) -> ToolResult:
    """What the author's code answers a call of the tool `name` with. Raises EpisodeError, see `call_tool`."""
    try:
        answer = call()
        if inspect.isawaitable(answer):
            answer = await answer
    except ToolError as error:
        return ToolResult(str(error), True, "tool_error")
    except (Exception, SystemExit) as error:
        raise EpisodeError(f"tool {name!r} raised {type(error).__name__}: {error}") from error
    return _result(name, answer)


def _result(name: str, answer: Any) -> ToolResult:
    if isinstance(answer, Observation):
        return ToolResult(answer.text, observation=answer)
    try:
        data = plain(answer)
    except ValueError as error:
        raise EpisodeError(f"tool {name!r} returned {error}") from error
    if isinstance(answer, str):
        return ToolResult(answer)
    return ToolResult(json.dumps(data, ensure_ascii=False), data=data)


# --- arguments ------------------------------------------------------------------------------------------------


def _validated(entry: _Tool, arguments: Any) -> dict[str, Any] | str:
    """Keyword arguments for the method, or the text that tells the model what is wrong with each."""
    from pydantic import ValidationError

    title = f"Invalid arguments for {entry.spec.name}:"
    written = as_json(entry.spec.name, arguments)
    if isinstance(written, str):
        return written
    try:
        # Through JSON, since only there pydantic's strict mode knows that a date is written as a string.
        parsed = entry.model.model_validate_json(written, strict=True)
    except ValidationError as error:
        return "\n".join([title, *_complaints(entry, error)])
    except TypeError as error:  # of a validator such as int(), which pydantic leaves as it is
        return f"{title} {error}"
    except Exception as error:
        raise EpisodeError(f"tool {entry.spec.name!r}: a validator raised {type(error).__name__}: {error}") from error
    return {name: getattr(parsed, attribute) for name, attribute in entry.names.items()}


def as_json(name: str, arguments: Any) -> bytes | str:
    """Arguments for the tool `name` as JSON, or the text that tells the model why they are no JSON object."""
    title = f"Invalid arguments for {name}:"
    if not isinstance(arguments, dict):
        return f"{title} expected a JSON object, got {_short(arguments)}"
    if (written := _simple(arguments)) is not None:
        return written
    try:
        if (where := nonfinite(arguments)) is not None:
            return f"{title}\n- {where.lstrip('.')}: NaN and infinities are not JSON"
        if (where := surrogate(arguments)) is not None:
            return f"{title}\n- {where.lstrip('.')}: the text has half a character in it (a lone surrogate)"
        return json.dumps(arguments).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"{title} not JSON: {error}"


def _simple(arguments: dict[Any, Any]) -> bytes | None:
    """`arguments` as JSON if nothing can be wrong with that, else None.

    Most calls have a few texts and numbers, and the closer look that others need is half of what a quick call costs.
    """
    for key, value in arguments.items():
        kind = type(value)
        simple = kind is str or kind is bool or value is None or (kind is float and math.isfinite(value))
        if type(key) is not str or not (simple or (kind is int and -(2**63) <= value < 2**63)):
            return None
    try:
        return msgspec.json.encode(arguments)
    except UnicodeEncodeError:
        return None


def _complaints(entry: _Tool, error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False):
        where = _path(item["loc"]) or "arguments"
        if item["type"] == "missing":
            lines.append(f"- {where}: missing, and required")
        elif item["type"] == "extra_forbidden":
            near = get_close_matches(str(item["loc"][-1]), entry.names, n=1) if len(item["loc"]) == 1 else []
            known = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(entry.names) or 'none'}"
            lines.append(f"- {where}: no such argument{known if len(item['loc']) == 1 else ''}")
        else:
            lines.append(f"- {where}: {item['msg']}, got {_short(item['input'])}")
    return lines


def _path(loc: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.lstrip(".")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


# --- from a signature to a schema -----------------------------------------------------------------------------


def _tools(env_class: type) -> dict[str, _Tool]:
    """`_Tool` by name, made once per class and kept on it."""
    cached: dict[str, _Tool] | None = env_class.__dict__.get(_CACHE)
    if cached is not None:
        return cached
    tools: dict[str, _Tool] = {}
    problems: list[Problem] = []
    for name in _marked(env_class):
        made = _compile(env_class, name)
        if isinstance(made, _Tool):
            tools[name] = made
        else:
            problems += made
    if problems:
        raise InputError(problems)
    setattr(env_class, _CACHE, tools)
    return tools


def _marked(env_class: type) -> list[str]:
    """Names of the tools. An override of a base class's tool is one too, marked or not; ``name = None`` removes it."""
    names: dict[str, None] = {}
    for klass in reversed(env_class.__mro__):
        names.update({name: None for name, value in vars(klass).items() if getattr(_function(value), _MARK, False)})
    return [name for name in names if inspect.getattr_static(env_class, name) is not None]


def _function(attribute: Any) -> Any:
    return getattr(attribute, "__func__", getattr(attribute, "fget", attribute))


def _compile(env_class: type, name: str) -> _Tool | list[Problem]:
    attribute = inspect.getattr_static(env_class, name)
    method = _function(attribute)
    code = getattr(inspect.unwrap(method), "__code__", None)
    where = f"{Path(code.co_filename).name}:{code.co_firstlineno} " if code else ""
    where += f"{env_class.__name__}.{name}"
    problems = _signature_problems(attribute, method, name, where)
    if problems:
        return problems
    try:
        hints = _hints(method)
    except Exception as error:  # the annotation is the author's code: anything may come out of it
        return [Problem(where, f"an annotation cannot be resolved: {error}", "import the type in the module")]
    description, documented = docstrings.parse(method.__doc__)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    strays = [name for name in documented if name not in {parameter.name for parameter in parameters}]
    if strays:
        return [Problem(where, f"the docstring's Args names {stray!r}, which is no argument") for stray in strays]
    names = {parameter.name: f"a{index}" for index, parameter in enumerate(parameters)}
    try:
        model = _model(env_class, name, parameters, hints, documented, names)
        schema = _schema(model)
    except Exception as error:  # pydantic has a dozen errors for types without a schema, some of them TypeErrors
        first = str(error).strip().splitlines()[0]
        return [Problem(where, f"its arguments have no JSON Schema: {first}", "use types that JSON can hold")]
    return _Tool(ToolSpec(name, description, schema), model, names)


def _hints(method: Any) -> dict[str, Any]:
    """Types of the arguments. What a tool returns may be a name that exists for a type checker only."""
    target = inspect.unwrap(method)
    annotations = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
    holder = SimpleNamespace(__annotations__=annotations)
    return typing.get_type_hints(holder, globalns=target.__globals__, include_extras=True)


def _signature_problems(attribute: Any, method: Any, name: str, where: str) -> list[Problem]:
    if not inspect.isfunction(attribute):
        return [Problem(where, f"a tool is a plain method, not a {type(attribute).__name__}", "take the decorator off")]
    problems = []
    if name in RESERVED_TOOLS:
        problems.append(Problem(where, f"the name {name!r} is reserved", "rename the tool"))
    if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
        problems.append(
            Problem(where, "model APIs allow 64 of A-Z, a-z, 0-9 and _ in a tool's name", "rename the tool")
        )
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        problems.append(Problem(where, "a tool returns its answer; this one yields", "return a str, a dict …"))
    parameters = list(inspect.signature(method).parameters.values())
    if not parameters:
        problems.append(Problem(where, "a tool is a method, and this one takes no self", "add self"))
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problems.append(Problem(where, f"{parameter} has no schema", "name each argument"))
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            problems.append(Problem(where, f"{parameter.name!r} is positional-only", "remove the /"))
        elif parameter.annotation is parameter.empty:
            problems.append(Problem(where, f"argument {parameter.name!r} has no annotation", "say its type"))
    return problems


def _model(
    env_class: type,
    name: str,
    parameters: list[inspect.Parameter],
    hints: dict[str, Any],
    documented: dict[str, str],
    names: dict[str, str],
) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for parameter in parameters:
        default = ... if parameter.default is parameter.empty else parameter.default
        alias = Field(alias=parameter.name, description=documented.get(parameter.name))
        fields[names[parameter.name]] = (Annotated[hints[parameter.name], alias], default)
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(f"{env_class.__name__}.{name}", __config__=config, **fields)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Without a title that repeats each field's name: it costs a model tokens and tells it nothing."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pydantic warns of a default that JSON cannot hold, and drops it
        schema = model.model_json_schema(by_alias=True, schema_generator=Untitled)
    schema.pop("title", None)
    return schema
