"""What a reply does: an action of a text environment, tool calls, or the end of a turn. Knows no trainer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_env.tools import END_TURN
from agent_env.training.actions import ACT, Tag, read_action, split_thought

NO_ACTION = "(no action)"


@dataclass(frozen=True)
class Call:
    """A tool call; one with a `problem` is answered with that and not made."""

    name: str
    arguments: Any
    problem: str = ""

    def __str__(self) -> str:
        arguments = (
            self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)
        )
        return f"{self.name}({arguments})"


@dataclass(frozen=True)
class Move:
    """What a reply does.

    Args:
        reply: its text, without special tokens.
        action: what it does, in words, for memory and traces.
        thought: what it thinks; "" if nothing.
        calls: in their order.
        response: the model's answer to the open turn, which ends it; None if the reply does not end the turn.
        problem: why it could not be read, for the model; "" if it could.
    """

    reply: str
    action: str
    thought: str
    calls: tuple[Call, ...] = ()
    response: str | None = None
    problem: str = ""

    @property
    def format_valid(self) -> bool:
        return not self.problem and not any(call.problem for call in self.calls)

    @classmethod
    def acting(cls, reply: str, tags: Sequence[Tag]) -> Move:
        """A reply whose action is text, written in one of `tags`."""
        written = read_action(reply, tags)
        if written.action is None or written.tag is None:
            return cls(reply, NO_ACTION, written.thought, problem=written.problem)
        tag, text = written.tag, written.action
        action = text if tag.tool == ACT else tag.around(text)
        if tag.tool == END_TURN:
            return cls(reply, action, written.thought, response=text)
        return cls(reply, action, written.thought, (Call(tag.tool, {tag.argument: text}),))

    @classmethod
    def calling(cls, reply: str, calls: Sequence[Call]) -> Move:
        """A reply that makes calls, one or more."""
        return cls(reply, "\n".join(map(str, calls)), split_thought(reply)[0], tuple(calls))

    @classmethod
    def ending(cls, reply: str) -> Move:
        """A reply that ends a turn."""
        thought, said = split_thought(reply)
        return cls(reply, said, thought, response=reply)
