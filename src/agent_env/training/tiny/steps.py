"""A demonstration in the step layout: for each step the prompt that the step loop would make, and what was done.

The play is played again, as it was recorded, by the loop's own `StepPlayer`: so memory, template, notes and what gives
way to the limit are the loop's. Each step is a conversation of its own, in which the model speaks once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerFast

from agent_env.bundle import Bundle
from agent_env.demonstrator import Demonstration, PlayedMove
from agent_env.errors import InputError, Problem, PromptTooLong
from agent_env.openenv.messages import seen
from agent_env.step_prompt import StepPrompt
from agent_env.tools import END_TURN, ToolResult
from agent_env.training.actions import Tag, text_tags
from agent_env.training.memory import memory_of
from agent_env.training.sessions import Answer, Ended, NextTurn
from agent_env.training.step_game import Game
from agent_env.training.step_moves import Call, Move
from agent_env.training.step_options import StepOptions
from agent_env.training.step_player import StepPlayer
from agent_env.training.tiny.conversations import Conversation, calling, tools_of

LONGEST = 1024
"""Tokens of a prompt: as many as ``agent-env train`` allows on a CPU."""

Json = dict[str, Any]


def demonstrated_steps(
    bundle: Bundle, plays: Sequence[Demonstration], options: StepOptions, tokenizer: PreTrainedTokenizerFast
) -> list[Conversation]:
    """Every step of the plays, as a conversation of the prompt and the reply.

    Args:
        tokenizer: what prompts and memories are measured with; for a blank one everything is short enough.

    Raises:
        InputError: a task that is too long without memory and observation; a move that the step layout has no reply
            for.
    """
    cutter = _Cutter(tokenizer)
    template, new_memory = StepPrompt(options.step_prompt, "step_prompt"), memory_of(options.memory)

    async def steps_of(play: Demonstration) -> list[Conversation]:
        tools = tools_of(bundle, play.task)
        tags = text_tags(tools, options.tags)
        offered = frozenset(tool["function"]["name"] for tool in tools)
        most_calls = max((len(move.calls) for turn in play.turns for move in turn.moves), default=1)
        game = Game(_Recording(play), offered, most_calls)
        player = StepPlayer(game, options, template, new_memory(), tags)
        shown = () if tags else tools
        steps = []
        for said, move in _text_moves(play, tags) if tags else _tool_moves(play):
            if not player.goes_on:
                break
            try:
                prompt = await player.prompt(LONGEST, cutter.tokenize(shown), cutter.size)
            except PromptTooLong as error:
                fix = "shorten step_prompt, or the task and its tools"
                raise InputError(Problem(f"task {play.task.id!r}", str(error), fix)) from error
            messages = (*player.messages(prompt.view), said)
            steps.append(Conversation(play.task.id, messages, shown, play.ended.reward))
            await player.play(move)
        return steps

    async def all_steps() -> list[Conversation]:
        return [step for play in plays for step in await steps_of(play)]

    return asyncio.run(all_steps())


def _text_moves(play: Demonstration, tags: Sequence[Tag]) -> Iterator[tuple[Json, Move]]:
    """What is said and done at each step whose action is text.

    Replies are steps where there is a tag for them; in a text environment there is none, for they follow its end.
    """
    ending = next((tag for tag in tags if tag.tool == END_TURN), None)
    for turn in play.turns:
        for played in turn.moves:
            yield _said(_action_reply(play, played, tags), tags)
        if ending is not None:
            reply = ending.around(turn.reply)
            if Move.acting(reply, tags).response != turn.reply:
                what = f"the demonstrator's reply {turn.reply!r} cannot be written as {reply}"
                raise InputError(Problem(f"task {play.task.id!r}", what, "reply with words, and no space around them"))
            yield _said(reply, tags)


def _said(reply: str, tags: Sequence[Tag]) -> tuple[Json, Move]:
    return {"role": "assistant", "content": reply}, Move.acting(reply, tags)


def _action_reply(play: Demonstration, played: PlayedMove, tags: Sequence[Tag]) -> str:
    where = f"task {play.task.id!r}"
    if len(played.calls) > 1:
        what = f"the demonstrator makes {len(played.calls)} calls at once, and a step is one action"
        raise InputError(Problem(where, what, "yield one call at a time"))
    call = Call(played.calls[0].name, played.calls[0].arguments)
    tag = next((tag for tag in tags if tag.tool == call.name), tags[0])
    reply = tag.around(str(call.arguments.get(tag.argument)))
    if Move.acting(reply, tags).calls != (call,):
        what = f"the demonstrator's {call} cannot be written as {reply}"
        raise InputError(Problem(where, what, f"call {tag.tool} with words and single spaces between them"))
    return reply


def _tool_moves(play: Demonstration) -> Iterator[tuple[Json, Move]]:
    """What is said and done at each step of a tool environment; every turn ends with a plain reply."""
    for turn in play.turns:
        for played in turn.moves:
            calls = [Call(call.name, call.arguments) for call in played.calls]
            yield calling(*played.calls), Move.calling("", calls)
        yield {"role": "assistant", "content": turn.reply}, Move.ending(turn.reply)


@dataclass
class _Cutter:
    """Measures texts and prompts as the step loop does."""

    tokenizer: PreTrainedTokenizerFast

    def tokenize(self, tools: Sequence[Json]) -> Any:
        async def tokenize(messages: list[Json]) -> list[int]:
            return list(
                self.tokenizer.apply_chat_template(
                    messages, tools=list(tools) or None, add_generation_prompt=True, return_dict=False
                )
            )

        return tokenize

    def size(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))


class _Recording:
    """A demonstration, as the session it could have been played on: each call is answered as it was then."""

    def __init__(self, play: Demonstration) -> None:
        self._turns = iter(play.turns)
        self._end = play.ended
        self._answers: Iterator[ToolResult] = iter(())
        self.system_prompt, self.observation = play.task.system_prompt, seen(play.observation)
        self.ended: Ended | None = None
        self.prompt = ""
        self._open()

    async def call(self, name: str, arguments: Any) -> Answer:
        result = next(self._answers)
        return Answer(result.text, result.is_error, observation=seen(result.observation))

    async def end_turn(self, response: str) -> NextTurn | Ended:
        if self._open():
            return NextTurn(self.prompt, self.system_prompt)
        self.ended = Ended(self._end.reward, self._end.scores)
        return self.ended

    def _open(self) -> bool:
        """Go on to the next turn, if there is one."""
        turn = next(self._turns, None)
        if turn is None:
            return False
        self.prompt = turn.turn.prompt
        self._answers = iter([answer for move in turn.moves for answer in move.answers])
        return True
