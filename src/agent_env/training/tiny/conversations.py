"""What the demonstrator says and hears, as the conversation a model would have in a rollout.

A conversation's text is the tokenizer's chat template over its messages and tools; its tokens are those that an agent
loop puts together (first prompt, the model's own tokens, what the template adds between them), and the mask is 1 where
the model speaks, its end token included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerFast

from agent_env.bundle import Bundle
from agent_env.demonstrator import Call, Demonstration, PlayedTurn
from agent_env.task import Task
from agent_env.tools import END_TURN
from agent_env.training.tasks import END_TURN_TOOL, Progress
from agent_env.training.tiny.plays import plays

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
    """The demonstrator's plays of every task of a split as conversations; arguments and errors are those of `plays`."""
    played = plays(bundle, split, times=times, error_rate=error_rate, seed=seed, progress=progress)
    return [conversation_of(bundle, play) for play in played]


def conversation_of(bundle: Bundle, play: Demonstration) -> Conversation:
    """A play as a conversation."""
    return Conversation(play.task.id, tuple(_messages(play)), tools_of(bundle, play.task), play.ended.reward)


def tools_of(bundle: Bundle, task: Task) -> tuple[Json, ...]:
    """The tools that a model playing a task is shown, in OpenAI's format."""
    tools = tuple(tool.openai() for tool in bundle.toolset(task).tools)
    return tools if len(task.turns) == 1 else (*tools, END_TURN_TOOL)


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
        messages.append(calling(*move.calls))
        messages += [{"role": "tool", "content": answer.text} for answer in move.answers]
    if following is None:
        return [*messages, {"role": "assistant", "content": played.reply}]
    # The next turn's prompt comes back as the answer to the call that ends this one.
    ending = calling(Call(END_TURN, {"response": played.reply}))
    return [*messages, ending, {"role": "tool", "content": following.turn.prompt}]


def calling(*calls: Call) -> Json:
    """The assistant's message that makes calls at once."""
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
