"""What the demonstrator says and hears, as the conversation a model would have in a rollout.

A conversation's text is the tokenizer's chat template over its messages and tools; its tokens are those that an agent
loop puts together (first prompt, the model's own tokens, what the template adds between them), and the mask is 1 where
the model speaks, its end token included.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerFast

from agent_env.bundle import Bundle
from agent_env.demonstrator import Call, Demonstration, PlayedTurn, play
from agent_env.episode import Episode
from agent_env.hosting.local import LocalHandle
from agent_env.task import Task
from agent_env.training.sessions import END_TURN
from agent_env.training.tasks import END_TURN_TOOL, Progress

Json = dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """Messages and tools in OpenAI's format; the last message is the assistant's. `reward` is what the play earned."""

    task: str
    messages: tuple[Json, ...]
    tools: tuple[Json, ...]
    reward: float


@dataclass(frozen=True)
class Tokens:
    """A conversation's token ids, and for each of them whether the model says it; both of shape (tokens,)."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...]


def demonstrate(
    bundle: Bundle, split: str, *, times: int, error_rate: float, seed: int, progress: Progress
) -> list[Conversation]:
    """The demonstrator's plays of every task of a split, `times` each. The same seed gives the same plays.

    Raises:
        InputError: the bundle has no demonstrator, no such split, or no task in it.
        EpisodeError: the environment or the demonstrator failed.
    """
    tasks = bundle.to_demonstrate(split)

    async def play_all() -> list[Conversation]:
        rng, played = random.Random(f"plays {seed}"), []
        for number in range(times):
            for place, task in enumerate(tasks):
                played.append(await _played(bundle, task, rng, error_rate))
                progress("demonstrating", number * len(tasks) + place + 1, times * len(tasks))
        return played

    return asyncio.run(play_all())


async def _played(bundle: Bundle, task: Task, rng: random.Random, error_rate: float) -> Conversation:
    assert bundle.demonstrator is not None
    episode = Episode(bundle, task, LocalHandle(bundle))
    try:
        demonstration = await play(episode, bundle.demonstrator, rng, error_rate)
    finally:
        await episode.close()
    tools = tuple(tool.openai() for tool in bundle.toolset(task).tools)
    if len(task.turns) > 1:
        tools = (*tools, END_TURN_TOOL)
    return Conversation(task.id, tuple(_messages(demonstration)), tools, demonstration.ended.reward)


def _messages(demonstration: Demonstration) -> list[Json]:
    task, seen = demonstration.task, demonstration.observation
    messages = [{"role": "system", "content": task.system_prompt}] if task.system_prompt else []
    first = task.turns[0].prompt
    messages.append({"role": "user", "content": f"{first}\n\n{seen.text}" if seen is not None and seen.text else first})
    for played, following in zip(demonstration.turns, [*demonstration.turns[1:], None], strict=True):
        messages += _turn(played, following)
    return messages


def _turn(played: PlayedTurn, following: PlayedTurn | None) -> list[Json]:
    messages: list[Json] = []
    for move in played.moves:
        messages.append(_calling(*move.calls))
        messages += [{"role": "tool", "content": answer} for answer in move.answers]
    if following is None:
        return [*messages, {"role": "assistant", "content": played.reply}]
    # The next turn's prompt comes back as the answer to the call that ends this one.
    ending = _calling(Call(END_TURN, {"response": played.reply}))
    return [*messages, ending, {"role": "tool", "content": following.turn.prompt}]


def _calling(*calls: Call) -> Json:
    written = [{"type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
    return {"role": "assistant", "content": "", "tool_calls": written}


def text_of(conversation: Conversation, tokenizer: PreTrainedTokenizerFast) -> str:
    """The whole conversation as the chat template writes it."""
    return _render(tokenizer, conversation, len(conversation.messages), prompt=False)


def tokens_of(conversations: Sequence[Conversation], tokenizer: PreTrainedTokenizerFast) -> list[Tokens]:
    """The tokens of each conversation.

    Raises:
        ValueError: the chat template is not append-only: it writes a message otherwise once others follow it.
    """
    end = tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id)
    spoken = [list(_parts(conversation, tokenizer, end)) for conversation in conversations]
    encoded = iter(tokenizer([text for parts in spoken for text, _ in parts], add_special_tokens=False)["input_ids"])
    tokens = []
    for parts in spoken:
        pieces = [(next(encoded), said) for _, said in parts]
        ids = [token for piece, _ in pieces for token in piece]
        tokens.append(Tokens(tuple(ids), tuple(said for piece, said in pieces for _ in piece)))
    return tokens


def _parts(conversation: Conversation, tokenizer: PreTrainedTokenizerFast, end: str) -> list[tuple[str, bool]]:
    """The conversation's text in pieces, each with whether the model says it; up to the model's last end token."""
    parts: list[tuple[str, bool]] = []
    done = ""
    for place, message in enumerate(conversation.messages):
        if message["role"] != "assistant":
            continue
        before = _render(tokenizer, conversation, place, prompt=True)
        after = _render(tokenizer, conversation, place + 1, prompt=False)
        said = after[len(before) : after.rindex(end) + len(end)]
        if not before.startswith(done) or not after.startswith(before):
            raise ValueError("the chat template is not append-only: it rewrites what was said before")
        parts += [(before[len(done) :], False), (said, True)]
        done = before + said
    return parts


def _render(tokenizer: PreTrainedTokenizerFast, conversation: Conversation, upto: int, *, prompt: bool) -> str:
    text = tokenizer.apply_chat_template(
        list(conversation.messages[:upto]),
        tools=list(conversation.tools) or None,
        tokenize=False,
        add_generation_prompt=prompt,
    )
    assert isinstance(text, str)
    return text
