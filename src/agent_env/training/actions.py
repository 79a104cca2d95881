"""The action in a reply to a text environment: what stands between ``<action>`` and ``</action>``.

Thoughts do not count and are not asked for: what is between ``<think>`` and ``</think>`` is set aside, also when the
prompt opened it and the reply only closes it. Nothing is guessed: a reply without exactly one action holds none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ACT = "act"
"""The one tool of a `TextEnvironment`."""

_THOUGHTS = [
    re.compile(thought, re.DOTALL | re.IGNORECASE)
    for thought in (r"<think>(.*?)</think>", r"\A(.*)</think>", r"<think>(.*)\Z")
]
"""Whole ones; one that the prompt opened; one that the end of the reply broke off."""
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"<action>", re.IGNORECASE)
FORM = "write exactly one, as <action>...</action>"


@dataclass(frozen=True)
class Written:
    """What a reply holds.

    Args:
        action: without spaces around it; None if the reply does not hold exactly one.
        thought: what was thought; "" if nothing.
        problem: why there is no action, for the model; "" if there is one.
    """

    action: str | None
    thought: str
    problem: str = ""


def text_argument(tools: Sequence[Mapping[str, Any]]) -> str | None:
    """The argument of ``act`` if that is the only tool, and takes one: then actions are text. Else None.

    Args:
        tools: that the model is offered, in OpenAI's format.
    """
    if [tool["function"]["name"] for tool in tools] != [ACT]:
        return None
    arguments = list((tools[0]["function"].get("parameters") or {}).get("properties") or {})
    return str(arguments[0]) if len(arguments) == 1 else None


def read_action(reply: str) -> Written:
    """The action and the thought in a reply's text."""
    thought, said = split_thought(reply)
    opened = len(_OPEN.findall(said))
    actions = [" ".join(action.split()) for action in _ACTION.findall(said)]
    if opened == 0:
        return Written(None, thought, f"Your last reply held no action: {FORM}.")
    if opened > 1:
        return Written(None, thought, f"Your last reply held {opened} actions and none was done: {FORM}.")
    if not actions:
        return Written(None, thought, f"The action in your last reply was not closed: {FORM}.")
    if not actions[0]:
        return Written(None, thought, f"The action in your last reply was empty: {FORM}.")
    return Written(actions[0], thought)


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
