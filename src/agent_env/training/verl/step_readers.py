"""From the tokens of a reply to what it does, by verl's parsers where it makes tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_env.training.actions import Tag, text_tags
from agent_env.training.step_moves import Call, Move
from agent_env.training.verl.calls import CheckedParser, UnreadCall
from agent_env.training.verl.schemas import typed


class TextReader:
    """Reads an action that is written in one of `tags`."""

    def __init__(self, tokenizer: Any, tags: Sequence[Tag]) -> None:
        self._tokenizer, self.tags = tokenizer, tags

    stop_token_ids: Sequence[int] = ()

    async def read(self, token_ids: list[int]) -> Move:
        """What the reply does."""
        return Move.acting(str(self._tokenizer.decode(token_ids, skip_special_tokens=True)), self.tags)


class ToolReader:
    """Reads tool calls as verl's parser `name` does, and those it leaves out (see `CheckedParser`)."""

    tags: Sequence[Tag] = ()

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
        _, found = await self._parser.extract_tool_calls(token_ids, self._schemas)
        return Move.calling(reply, [self._call(call) for call in found]) if found else Move.ending(reply)

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


def reader_of(
    tools: Sequence[dict[str, Any]], wanted: Mapping[str, str] | None, tokenizer: Any, parser: str
) -> TextReader | ToolReader:
    """The reader for a row's tools; `wanted` are the bundle's tags, `parser` is the name of verl's.

    Raises:
        InputError: tags that the tools do not go with.
    """
    tags = text_tags(tools, wanted)
    return TextReader(tokenizer, tags) if tags else ToolReader(tokenizer, parser, tools)
