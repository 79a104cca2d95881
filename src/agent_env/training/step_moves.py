"""What a reply does: an action of a text environment, tool calls, or the end of a turn. Knows no trainer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_env.training.actions import ACT, read_action, split_thought

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
        ends_turn: whether the reply is the model's answer to the open turn.
        problem: why it could not be read, for the model; "" if it could.
    """

    reply: str
    action: str
    thought: str
    calls: tuple[Call, ...] = ()
    ends_turn: bool = False
    problem: str = ""

    @property
    def format_valid(self) -> bool:
        return not self.problem and not any(call.problem for call in self.calls)

    @classmethod
    def acting(cls, reply: str, argument: str) -> Move:
        """A reply in a text environment, whose action is the argument so named of ``act``."""
        written = read_action(reply)
        if written.action is None:
            return cls(reply, NO_ACTION, written.thought, problem=written.problem)
        return cls(reply, written.action, written.thought, (Call(ACT, {argument: written.action}),))

    @classmethod
    def calling(cls, reply: str, calls: Sequence[Call]) -> Move:
        """A reply that makes calls, one or more."""
        return cls(reply, "\n".join(map(str, calls)), split_thought(reply)[0], tuple(calls))

    @classmethod
    def ending(cls, reply: str) -> Move:
        """A reply that ends a turn."""
        thought, said = split_thought(reply)
        return cls(reply, said, thought, ends_turn=True)
