"""The action in a reply that is text: what stands between two tags, ``<action>`` and ``</action>`` if nothing else.

A text environment is played by ``<action>``; a bundle of tools may name tags of its own (``[steps] tags``), each for a
tool that requires one text or for the end of the turn. Thoughts do not count and are not asked for: what is between
``<think>`` and ``</think>`` is set aside, also when the prompt opened it and the reply only closes it. Nothing is
guessed: a reply without exactly one action holds none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.tools import END_TURN

ACT = "act"
"""The one tool of a `TextEnvironment`."""

_THOUGHTS = [
    re.compile(thought, re.DOTALL | re.IGNORECASE)
    for thought in (r"<think>(.*?)</think>", r"\A(.*)</think>", r"<think>(.*)\Z")
]
"""Whole ones; one that the prompt opened; one that the end of the reply broke off."""


@dataclass(frozen=True)
class Tag:
    """What stands in ``<name>…</name>`` is the argument so named of `tool`, or the reply if `tool` is ``end_turn``."""

    name: str
    tool: str
    argument: str

    def around(self, text: str) -> str:
        """`text` as it is written."""
        return f"<{self.name}>{text}</{self.name}>"


@dataclass(frozen=True)
class Written:
    """What a reply holds.

    Args:
        action: without spaces around it; None if the reply does not hold exactly one.
        thought: what was thought; "" if nothing.
        problem: why there is no action, for the model; "" if there is one.
        tag: that the action stands in; None if there is no action.
    """

    action: str | None
    thought: str
    problem: str = ""
    tag: Tag | None = None


def text_tags(tools: Sequence[Mapping[str, Any]], wanted: Mapping[str, str] | None = None) -> tuple[Tag, ...]:
    """The tags that actions are written in; none if the model calls tools.

    Args:
        tools: that the model is offered, in OpenAI's format.
        wanted: of the bundle, from a tag's name to its tool's, or to ``end_turn``. Without them the tag is
            ``<action>`` if ``act`` is the only tool and takes one argument.

    Raises:
        InputError: tags for tools that are not offered, or do not require one argument; all of them.
    """
    parameters = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    if not wanted:
        taken = list(parameters.get(ACT, {}).get("properties") or {})
        return (Tag("action", ACT, taken[0]),) if list(parameters) == [ACT] and len(taken) == 1 else ()
    arguments = {name: list(schema.get("required") or []) for name, schema in parameters.items()}
    arguments[END_TURN] = ["response"]
    wrong = {name: tool for name, tool in wanted.items() if len(arguments.get(tool, [])) != 1}
    if wrong:
        what = "is no tool of this task that requires one argument"
        raise InputError([Problem(f"tags.{name}", f"{tool!r} {what}") for name, tool in wrong.items()])
    return tuple(Tag(name, tool, arguments[tool][0]) for name, tool in wanted.items())


def read_action(reply: str, tags: Sequence[Tag]) -> Written:
    """The action and the thought in a reply's text, where actions are written in `tags`, one or more."""
    thought, said = split_thought(reply)
    form = f"write exactly one, as {' or '.join(tag.around('...') for tag in tags)}."
    opened = [tag for tag in tags for _ in re.findall(f"<{re.escape(tag.name)}>", said, re.IGNORECASE)]
    if not opened:
        return Written(None, thought, f"Your last reply held no action: {form}")
    if len(opened) > 1:
        return Written(None, thought, f"Your last reply held {len(opened)} actions and none was done: {form}")
    (tag,) = opened
    name = re.escape(tag.name)
    found = re.search(f"<{name}>(.*?)</{name}>", said, re.DOTALL | re.IGNORECASE)
    if found is None:
        return Written(None, thought, f"The action in your last reply was not closed: {form}")
    # A game's action is words; what another tool is given may be lines of code.
    action = " ".join(found[1].split()) if tag.tool == ACT else found[1].strip()
    if not action:
        return Written(None, thought, f"The action in your last reply was empty: {form}")
    return Written(action, thought, tag=tag)


def split_thought(reply: str) -> tuple[str, str]:
    """What a reply thinks, and what it says."""
    thoughts: list[str] = []

    def keep(match: re.Match[str]) -> str:
        thoughts.append(match[1].strip())
        return ""

    said = reply
    for thought in _THOUGHTS:
        said = thought.sub(keep, said)
    return "\n".join(thought for thought in thoughts if thought), said.strip()
