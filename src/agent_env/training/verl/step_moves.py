"""From the tokens of a reply to what it does: an action of a text environment, tool calls, or the end of a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_env.training.actions import ACT, read_action, split_thought, text_argument
from agent_env.training.verl.calls import CheckedParser, UnreadCall
from agent_env.training.verl.schemas import typed

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


class TextReader:
    """Reads ``<action>…</action>``, for a task whose one tool is ``act`` with one text argument."""

    def __init__(self, tokenizer: Any, argument: str) -> None:
        self._tokenizer, self._argument = tokenizer, argument

    stop_token_ids: Sequence[int] = ()

    async def read(self, token_ids: list[int]) -> Move:
        """What the reply does."""
        reply = str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
        written = read_action(reply)
        if written.action is None:
            return Move(reply, NO_ACTION, written.thought, problem=written.problem)
        call = Call(ACT, {self._argument: written.action})
        return Move(reply, written.action, written.thought, (call,))


class ToolReader:
    """Reads tool calls as verl's parser `name` does, and those it leaves out (see `CheckedParser`)."""

    def __init__(self, tokenizer: Any, name: str, tools: Sequence[dict[str, Any]]) -> None:
        self._tokenizer = tokenizer
        self._parser = CheckedParser(name, tokenizer)
        self._schemas = [typed(tool) for tool in tools]

    @property
    def stop_token_ids(self) -> Sequence[int]:
        return self._parser.stop_token_ids

    async def read(self, token_ids: list[int]) -> Move:
        """What the reply does: its calls, or, if it makes none, the end of the turn."""
        reply = str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
        thought, said = split_thought(reply)
        _, found = await self._parser.extract_tool_calls(token_ids, self._schemas)
        if not found:
            return Move(reply, said, thought, ends_turn=True)
        calls = tuple(self._call(call) for call in found)
        return Move(reply, "\n".join(map(str, calls)), thought, calls)

    def _call(self, call: Any) -> Call:
        if isinstance(call, UnreadCall):
            return Call(call.name, call.arguments, call.problem)
        try:
            arguments = json.loads(call.arguments)
        except (ValueError, TypeError, RecursionError) as error:
            return Call(call.name, call.arguments, f"The arguments of {call.name} are not valid JSON: {error}.")
        if not isinstance(arguments, dict):
            return Call(call.name, arguments, f"The arguments of {call.name} must be a JSON object. Nothing was run.")
        return Call(call.name, arguments)


def reader_of(tools: Sequence[dict[str, Any]], tokenizer: Any, parser: str) -> TextReader | ToolReader:
    """The reader for a row's tools; `parser` is the name of verl's."""
    argument = text_argument(tools)
    return ToolReader(tokenizer, parser, tools) if argument is None else TextReader(tokenizer, argument)
