"""What scores a turn: seven verifiers, each a number in 0..1 (the environment's own may be several, by name).

A verifier is written in a task as a table, ``{"type": "number", "value": 42, "tolerance": 0.5}``; its keys are the
fields of the class below. All of them run where the environment runs (see `agent_env.hosting`), so that author code in
a verifier costs at most its own episode. A pattern that backtracks without end is stopped after `REGEX_SECONDS` by the
`regex` package, which checks the time while it matches and lets other threads run; `re` can do neither.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import jsonpath
import regex
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from agent_env.environment import Environment, Score
from agent_env.errors import EpisodeError, Problem
from agent_env.task import Task, Turn
from agent_env.validation import Strict, path, problems_of, suggestion

REGEX_SECONDS = 1.0

Resolve = Callable[[str], Any]
"""From ``module:function`` to the function; raises `ValueError` saying why not."""

Texts = Annotated[list[str], Field(min_length=1), BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]


class Verifier(Strict):
    """Base: a verifier is called with the reply, where it stands, and the live environment."""

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score | Awaitable[Score]:
        raise NotImplementedError

    def bind(self, resolve: Resolve) -> None:
        """Find what the options name outside the task. Raises ValueError."""


class Regex(Verifier):
    """1 if `pattern` is found anywhere in the reply (syntax of the `regex` package, a superset of `re`'s)."""

    type: Literal["regex"]
    pattern: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        if not pattern:
            raise ValueError("the empty pattern is in every reply")
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score:
        try:
            return float(bool(regex.search(self.pattern, reply, timeout=REGEX_SECONDS, concurrent=True)))
        except TimeoutError:
            raise EpisodeError(
                f"turn {turn.id!r}: the pattern {self.pattern!r} ran past {REGEX_SECONDS:g} s on a reply of "
                f"{len(reply)} characters; write it so that each text can match in one way only"
            ) from None


class Contains(Verifier):
    """1 if the reply contains every one of `text` (one str or several)."""

    type: Literal["contains"]
    text: Texts
    ignore_case: bool = False

    @field_validator("text")
    @classmethod
    def _says_something(cls, text: list[str]) -> list[str]:
        if "" in text:
            raise ValueError("the empty text is in every reply")
        return text

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score:
        return float(all(_folded(text, self.ignore_case) in _folded(reply, self.ignore_case) for text in self.text))


class Exact(Verifier):
    """1 if the reply, without space around it, is one of `text` (one str or several)."""

    type: Literal["exact"]
    text: Texts
    ignore_case: bool = False

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score:
        accepted = {_folded(text.strip(), self.ignore_case) for text in self.text}
        return float(_folded(reply.strip(), self.ignore_case) in accepted)


class Number(Verifier):
    """1 if the last number in the reply is within `tolerance` (absolute) of `value`. Commas may group thousands."""

    type: Literal["number"]
    value: float
    tolerance: float = Field(default=0.0, ge=0)

    _NUMBER: ClassVar[Any] = regex.compile(
        r"(?<![\w.])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    )

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score:
        found = self._NUMBER.findall(reply.replace("\N{MINUS SIGN}", "-"))
        return float(bool(found) and abs(float(found[-1].replace(",", "")) - self.value) <= self.tolerance)


class JsonPath(Verifier):
    """1 if the reply is JSON (or holds a fenced block of it) in which a value that `path` finds is `equals`."""

    type: Literal["json_path"]
    path: str
    equals: Any

    _FENCED: ClassVar[Any] = regex.compile(r"```(?:json)?[ \t]*\n(.*?)```", regex.DOTALL)

    @field_validator("path")
    @classmethod
    def _compiles(cls, path: str) -> str:
        try:
            jsonpath.compile(path)
        except jsonpath.JSONPathError as error:
            raise ValueError(f"not a JSONPath: {error}") from error
        return path

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score:
        for text in (reply, *self._FENCED.findall(reply)[-1:]):
            try:
                document = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict | list):
                return float(any(_same(value, self.equals) for value in jsonpath.findall(self.path, document)))
        return 0.0


class Env(Verifier):
    """The environment's own `score`."""

    type: Literal["env"]

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score | Awaitable[Score]:
        return env.score(reply)


class Python(Verifier):
    """What `function`, a ``module:function`` of the bundle, returns for ``(reply, task, turn)``; it may be async."""

    type: Literal["python"]
    function: str
    _function: Callable[[str, Task, Turn], Score | Awaitable[Score]] | None = None

    def bind(self, resolve: Resolve) -> None:
        function = resolve(self.function)
        try:
            inspect.signature(function).bind("reply", None, None)
        except TypeError as error:
            raise ValueError(f"{self.function} is not a function of (reply, task, turn): {error}") from error
        self._function = function

    def __call__(self, reply: str, task: Task, turn: Turn, env: Environment) -> Score | Awaitable[Score]:
        assert self._function is not None, "a verifier is bound before it is called"
        return self._function(reply, task, turn)


VERIFIERS: Mapping[str, type[Verifier]] = {
    "regex": Regex,
    "contains": Contains,
    "exact": Exact,
    "number": Number,
    "json_path": JsonPath,
    "env": Env,
    "python": Python,
}


def compile_verifier(spec: Mapping[str, Any], where: str, resolve: Resolve) -> Verifier | list[Problem]:
    """The verifier that a task's table asks for, or every problem of the table."""
    kind = spec.get("type")
    if not isinstance(kind, str) or kind not in VERIFIERS:
        what = "'type' is missing" if kind is None else f"there is no verifier {kind!r}"
        return [Problem(where, what, suggestion(str(kind), VERIFIERS))]
    model = VERIFIERS[kind]
    try:
        verifier = model.model_validate(dict(spec))
        verifier.bind(resolve)
    except ValidationError as error:
        return problems_of(error, model, lambda loc: f"{where}.{path(loc)}")
    except ValueError as error:
        return [Problem(f"{where}.function", str(error))]
    return verifier


def _folded(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text


def _same(a: Any, b: Any) -> bool:
    """JSON equality: ``1 == 1.0``, but ``true`` is no number."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)
