"""The model's tool calls: what verl's parser read, and what it left out.

verl's parsers leave out a call they cannot read and say so in the trainer's log only; the model would wait for an
answer that never comes, or end its turn without knowing. `CheckedParser` puts an `UnreadCall` in its place, so that the
model is answered with what was wrong. How a call is read stays verl's: to find which of several blocks was left out,
each is given to a parser of verl's own. What a parser did read goes to the session, which refuses arguments that are no
JSON object, and the server checks them against the tool's schema.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser

THINK_END = "</think>"


class UnreadCall(FunctionCall):
    """A tool call that verl's parser left out. `problem` is the answer to the model."""

    problem: str


class CheckedParser:
    """verl's tool parser `name`, with an `UnreadCall` for each call it leaves out.

    Blocks are found by the parser's own `tool_call_start_token` and `tool_call_regex`; for a parser without them
    (`gpt-oss`, `deepseek_v4`) and for what is only thought, inside ``<think>``, nothing changes. The `kimi` parser
    leaves nothing out but makes ``{}`` of arguments it cannot read, which would run a tool with none: those are
    `UnreadCall` too.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name, self.tokenizer = name, tokenizer
        self._parser = ToolParser.get_tool_parser(name, tokenizer)
        self._text_parser = ToolParser.get_tool_parser(name, _Text(tokenizer))

    @property
    def stop_token_ids(self) -> list[int]:
        return list(self._parser.stop_token_ids)

    async def extract_tool_calls(self, responses_ids: list[int], tools: Any = None) -> tuple[str, list[FunctionCall]]:
        """The message's text without its calls, and the calls in the order they were written."""
        content, calls = await self._parser.extract_tool_calls(responses_ids, tools)
        start = getattr(self._parser, "tool_call_start_token", None)
        pattern = getattr(self._parser, "tool_call_regex", None)
        if pattern is None or (start is None and not calls):
            return content, calls
        text = await asyncio.to_thread(self.tokenizer.decode, responses_ids)
        if start is None:
            return content, [
                _unless_emptied(call, match[2]) for call, match in zip(calls, pattern.finditer(text), strict=True)
            ]
        blocks = [(match.start(), match.group(0)) for match in pattern.finditer(text)]
        closed = max((at + len(block) for at, block in blocks), default=0)
        if start in text[closed:]:
            at = text.index(start, closed)
            blocks.append((at, text[at:]))
        if len(blocks) != 1 or len(calls) != 1:
            calls = await self._in_order(blocks, tools, start, thought=text.rfind(THINK_END))
        return content, self._without_end_of_message(calls)

    async def _in_order(
        self, blocks: list[tuple[int, str]], tools: Any, start: str, thought: int
    ) -> list[FunctionCall]:
        """What is in `blocks`, (position, text) each, one by one; `thought` is where the model's thinking ends."""
        calls: list[FunctionCall] = []
        for at, block in blocks:
            read = (await self._text_parser.extract_tool_calls(block, tools))[1]
            if not read and at > thought:
                read = [UnreadCall(name="", arguments=block, problem=self._problem(block.removeprefix(start)))]
            calls += read
        return calls

    def _problem(self, body: str) -> str:
        for end in (self.tokenizer.eos_token, getattr(self._parser, "tool_call_end_token", None)):
            body = body.strip().removesuffix(end or "")
        reason = "it is not in the format described above"
        if self.name == "hermes" and body.lstrip().startswith("{"):
            try:
                json.loads(body)
            except json.JSONDecodeError as error:
                reason = f"it is not valid JSON: {error}"
            except RecursionError:
                reason = "it is nested too deeply"
            else:
                reason = 'it needs a "name" and "arguments", and the tags around it as described above'
        return f"This tool call could not be read: {reason}. Nothing was run."

    def _without_end_of_message(self, calls: list[FunctionCall]) -> list[FunctionCall]:
        """A tolerant parser reads a call the model broke off up to the token that ended the message: not a value."""
        end = getattr(self.tokenizer, "eos_token", None)
        broken = "This tool call is not complete: the message ended inside it. Nothing was run."
        return [
            UnreadCall(name=call.name, arguments=call.arguments, problem=broken)
            if end and not isinstance(call, UnreadCall) and end in call.arguments + call.name
            else call
            for call in calls
        ]


def _unless_emptied(call: FunctionCall, written: str) -> FunctionCall:
    """`call`, unless its arguments are none because what was `written` is no JSON object."""
    try:
        read = json.loads(written)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        return call
    problem = "The arguments of this tool call are no JSON object. Nothing was run."
    return UnreadCall(**call.model_dump(exclude={"arguments"}), arguments=written, problem=problem)


class _Text:
    """Stands where a parser expects its tokenizer, for text that is decoded already."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, text: str, **_: Any) -> str:
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)
