"""What a user decides about the step layout: prompt, memory, limits, and what counts against an action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from agent_env.errors import Problem, Problems
from agent_env.step_prompt import StepPrompt
from agent_env.training.memory import DEFAULT, memory_of
from agent_env.validation import suggestion


@dataclass(frozen=True)
class StepOptions:
    """The options of the step layout; ``agent_loop.yaml`` has each under its name.

    Args:
        step_prompt: text of the template; None for the one that serves any bundle.
        tags: that actions are written in, from a tag's name to its tool's (see `agent_env.training.actions.text_tags`);
            None for ``<action>`` in text environments and tool calls elsewhere.
        memory: what the prompt says of the past (see `agent_env.training.memory.memory_of`).
        remember_thoughts: whether memory keeps what the model thought.
        max_steps: of an episode; one that is not over then is truncated.
        max_step_tokens: that the model may write in a step; None for verl's ``rollout.response_length``.
        invalid: what makes an action invalid: a reply without a readable one (``format``), one that the environment
            does not admit (``inadmissible``), or ``either``.
        invalid_penalty: what an invalid action costs its step; 0 for nothing.
        truncated: what becomes of an episode that was cut off: ``score`` it as it stands, ``bootstrap`` its value
            from a critic, or ``leave_out`` of statistics and loss.

    Raises:
        InputError: with everything that cannot be used.
    """

    step_prompt: str | None = None
    tags: dict[str, str] | None = None
    memory: str = DEFAULT
    remember_thoughts: bool = False
    max_steps: int = 50
    max_step_tokens: int | None = None
    invalid: Literal["format", "inadmissible", "either"] = "format"
    invalid_penalty: float = 0.1
    truncated: Literal["score", "bootstrap", "leave_out"] = "score"

    def __post_init__(self) -> None:
        problems = Problems()
        hints = get_type_hints(type(self))
        for field in fields(self):
            try:
                msgspec.convert(getattr(self, field.name), hints[field.name])
            except msgspec.ValidationError as error:
                problems.append(Problem(field.name, str(error)))
        problems.settle()
        problems.of(lambda: StepPrompt(self.step_prompt, "step_prompt"))
        problems.of(lambda: memory_of(self.memory))
        for name in ("max_steps", "max_step_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                problems.append(Problem(name, f"expected 1 or more, got {value}"))
        if not (math.isfinite(self.invalid_penalty) and self.invalid_penalty >= 0):
            problems.append(Problem("invalid_penalty", f"expected 0 or more, got {self.invalid_penalty}"))
        problems.settle()

    def with_(self, arguments: Mapping[str, Any]) -> StepOptions:
        """These options with others in place. Raises InputError with all that are no options, or cannot be used."""
        known = [field.name for field in fields(self)]
        what = "is no option of the step layout"
        problems = Problems(Problem(name, what, suggestion(name, known)) for name in arguments if name not in known)
        made = problems.of(lambda: replace(self, **{name: arguments[name] for name in arguments if name in known}))
        problems.settle()
        assert made is not None
        return made


def parse_options(arguments: Sequence[str]) -> dict[str, Any]:
    """Options as a user types them, ``name=value``; a ``step_prompt`` is the path of a template.

    Raises:
        InputError: with all that cannot be read.
    """
    hints = get_type_hints(StepOptions)
    parsed: dict[str, Any] = {}
    problems = Problems()
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or name not in hints:
            fix = suggestion(name, hints) if equals else "write NAME=VALUE"
            problems.append(Problem(argument, "is no option of the step layout", fix))
            continue
        try:
            value = msgspec.convert(text, hints[name], strict=False)
            parsed[name] = Path(text).read_text(encoding="utf-8") if name == "step_prompt" else value
        except msgspec.ValidationError as error:
            problems.append(Problem(argument, str(error)))
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(argument, f"cannot be read: {error}", "name the file of a template"))
    problems.settle()
    return parsed
