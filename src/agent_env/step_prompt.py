"""The template of the step layout: from what is known before a step to the message that the model answers.

A bundle may hold its own as ``step_prompt.md``; the one beside this module serves any bundle. It is Jinja, rendered in
a sandbox, and a name that the template uses and nobody defines is a problem, not an empty text.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agent_env.errors import InputError, Problem, Problems

DEFAULT = Path(__file__).with_name("step_prompt.md")
FIX = (
    "the names there are: task, memory, observation, images, actions, step, steps_left, max_steps, note, tags, "
    "text_actions"
)
MARK = "[picture]"
"""Where a picture is, or was, in what is text alone."""
_SLOT = "\ufdd0"  # of a picture in a rendered template: no character, so nothing else may hold it

_jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@dataclass(frozen=True)
class View:
    """What is known before a step; each field is a name in the template.

    Args:
        task: the prompt of the open turn.
        observation: what the environment shows now, in words; may be "".
        step: number of the step, from 1.
        max_steps: the most that an episode has.
        memory: of the steps before; may be "".
        actions: the admissible ones; None if the environment names none.
        note: what was wrong with the last reply; mostly "".
        tags: names of those that an action is written in, as ``<action>…</action>``; none if the model calls tools.
        images: URLs of the pictures that it shows now; the template's ``images`` is where they go.
    """

    task: str
    observation: str
    step: int
    max_steps: int
    memory: str = ""
    actions: Sequence[str] | None = None
    note: str = ""
    tags: Sequence[str] = ("action",)
    images: Sequence[str] = ()

    @property
    def steps_left(self) -> int:
        """This step included."""
        return self.max_steps - self.step + 1

    @property
    def text_actions(self) -> bool:
        """Whether an action is written in tags."""
        return bool(self.tags)


_NAMES = (*View.__dataclass_fields__, "steps_left", "text_actions")


class StepPrompt:
    """A template that was checked.

    Args:
        template: its text; None for the one that serves any bundle.
        where: it was written, for messages.

    Pictures stand where the template writes ``images``, or before all of its text if it does not name them.

    Raises:
        InputError: it is no template, uses names that there are not, leaves the observation out, shows pictures twice,
            or cannot be rendered.
    """

    def __init__(self, template: str | None = None, where: str = "step_prompt.md") -> None:
        self._where = where
        self._template, self._places_images = _checked(_default() if template is None else template, where)

    def render(self, view: View) -> str:
        """The message before a step, as text alone: `MARK` stands where a picture does.

        Raises:
            InputError: the template fails on what it is given.
        """
        return self._slotted(view).replace(_SLOT, MARK)

    def content(self, view: View) -> str | list[dict[str, Any]]:
        """The message before a step: a text or, with pictures, a list of blocks in the form of chat templates.

        A block is ``{"type": "text", "text"}`` or ``{"type": "image", "image": URL}``.

        Raises:
            InputError: the template fails on what it is given.
        """
        text = self._slotted(view)
        images = iter(view.images)
        blocks: list[dict[str, Any]] = []
        for number, part in enumerate(text.split(_SLOT)):
            if number:
                blocks.append({"type": "image", "image": next(images)})
            if part:
                blocks.append({"type": "text", "text": part})
        return text if _SLOT not in text else blocks

    def _slotted(self, view: View) -> str:
        """The rendered template, `_SLOT` for each picture."""
        text = _rendered(self._template, view, self._where)
        return text if self._places_images else _SLOT * len(view.images) + text


def _without_slots(value: Any) -> Any:
    """A value for the template, in whose texts nothing can be taken for a picture's place."""
    if isinstance(value, str):
        return value.replace(_SLOT, "\ufffd")
    return tuple(map(_without_slots, value)) if isinstance(value, list | tuple) else value


@functools.cache
def _default() -> str:
    return DEFAULT.read_text(encoding="utf-8")


@functools.lru_cache(maxsize=32)  # a loop lives for one rollout, and compiling takes longer than a step's prompt
def _checked(text: str, where: str) -> _Checked:
    """The compiled template. Raises what `StepPrompt` raises."""
    try:
        names = meta.find_undeclared_variables(_jinja.parse(text))
        template = _jinja.from_string(text)
    except TemplateSyntaxError as error:
        raise InputError(Problem(f"{where}:{error.lineno}", f"is no template: {error.message}")) from error
    known = {*_NAMES, *_jinja.globals}
    problems = Problems(Problem(where, f"uses {name!r}, which there is not", FIX) for name in sorted(names - known))
    if "observation" not in names:
        problems.append(Problem(where, "never shows the observation", "write {{ observation }}"))
    problems.settle()
    sample = View("Find the key.", "A hall.", 2, 9, "Step 1", ("north", "south"), "That was no action.")
    other = replace(sample, memory="", actions=None, note="", observation="", tags=())
    for view in (sample, other, replace(other, images=("data:,", "data:,"))):
        _rendered(template, view, where)
    return _Checked(template, "images" in names)


class _Checked(NamedTuple):
    template: Template
    places_images: bool


def _rendered(template: Template, view: View, where: str) -> str:
    """The template's text, with a `_SLOT` for each picture where it has them."""
    names = {name: _without_slots(getattr(view, name)) for name in _NAMES}
    names["images"] = _SLOT * len(view.images)
    try:
        text = template.render(names).strip()
        if (slots := text.count(_SLOT)) not in (0, len(view.images)):
            raise ValueError(f"it shows {len(view.images)} pictures in {slots} places: write {{{{ images }}}} once")
        return text
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(Problem(where, f"cannot be rendered: {error}")) from error
