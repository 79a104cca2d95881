"""Whether a chat template appends: what it makes of a message stays as it is, whatever message follows.

A rollout is made by appending. verl renders the first prompt, the model's tokens follow, then what the template adds
for the tools' answers, and so on; nothing that was said is rendered again. A policy trained so, and then played by
the template, sees what it was trained on only if the template appends. Templates that cut *thoughts* out of earlier
messages are common (the policy then plays with less than it was trained with): that is warned of. All else is refused.
In the step layout each prompt is rendered anew and nothing is appended to it: there, any template will do.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.training.verl.processors import load_processor

_log = logging.getLogger(__name__)

_PROMPT, _FIRST, _SECOND = "What is in the red box?", "a feather of an owl", "a key made of brass"
"""Contents of the user's message and of two tools' answers, to be found again in what is rendered."""
_ABOUT = "Look into a box."
_SECOND_BOX = "blue"
"""What the second call names, and nothing else does."""
_THOUGHT = "<think>\nI should look into it.\n</think>\n\n"
_STEPS = "or train step by step, where nothing is appended (--context steps)"
_TOOLS = f"use the template of a model that calls tools, {_STEPS}"

_TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": _ABOUT,
        "parameters": {"type": "object", "properties": {"box": {"type": "string"}}, "required": ["box"]},
    },
}

Json = dict[str, Any]


def check_appending(
    tokenizer: Any, template_kwargs: Mapping[str, Any], where: str, *, context: str = "conversation"
) -> None:
    """Refuse a chat template under which a rollout is not what the template renders; warn if only thoughts differ.

    Args:
        tokenizer: with a chat template. Where verl and the model's ``config.json`` are, verl is tried with it, too.
        template_kwargs: verl's ``data.apply_chat_template_kwargs``.
        where: what names the model, for messages.
        context: the layout; in ``steps`` the template need not append.

    Raises:
        InputError: a template that does not append or shows no tool's answer, or a tokenizer that verl cannot use.
    """
    known_to_verl = _check_with_verl(tokenizer, template_kwargs, where, appends=context != "steps")
    if context == "steps":
        return
    try:
        prompt, once, twice = _rendered(tokenizer, template_kwargs, "")
        _, thought_once, thought_twice = _rendered(tokenizer, template_kwargs, _THOUGHT)
    except Exception as error:  # a template is a program: it raises what it likes
        if known_to_verl:  # which has ways of its own for some families
            return
        raise InputError(Problem(where, f"its chat template refuses a tool's answer: {error}", _TOOLS)) from error
    if _FIRST not in once:
        raise InputError(Problem(where, "its chat template does not show a tool's answer", _TOOLS))
    if not _begin_alike(_PROMPT, prompt, once, twice) or not _begin_alike(_FIRST, once, twice):
        what = "its chat template renders a message otherwise once others follow, and a rollout is made by appending"
        raise InputError(Problem(where, what, f"use one that renders each message alike whatever follows it, {_STEPS}"))
    if _ABOUT not in prompt:
        _warn(f"{where}: its chat template shows no tools, so the model knows of them only what the prompts say")
    if _SECOND_BOX not in twice:
        _warn(
            f"{where}: its chat template shows no tool calls in earlier messages, and a rollout keeps them: whoever "
            "plays the trained model should not render its messages anew"
        )
    if not _begin_alike(_FIRST, thought_once, thought_twice):
        _warn(
            f"{where}: its chat template cuts thoughts out of earlier messages, and a rollout keeps them: whoever "
            "plays the trained model should not render its messages anew"
        )


def _rendered(tokenizer: Any, template_kwargs: Mapping[str, Any], thought: str) -> list[str]:
    """`_conversations` as text. Raises what the template raises."""

    def rendered(as_text: bool) -> list[str]:
        return [
            str(tokenizer.apply_chat_template(messages, tools=[_TOOL], tokenize=False, **template_kwargs))
            for messages in _conversations(thought, as_text)
        ]

    try:
        return rendered(as_text=False)
    except Exception:  # some templates take a call's arguments as text alone
        return rendered(as_text=True)


def _conversations(thought: str, as_text: bool = False) -> tuple[list[Json], list[Json], list[Json]]:
    """A first prompt; the same with a call and its answer; the same with another call and its answer.

    Args:
        thought: what each of the model's messages begins with.
        as_text: whether a call's arguments are JSON's text.
    """

    def exchange(box: str, answer: str) -> list[Json]:
        number = f"look{box:0>5}"  # nine letters and digits: some templates want that
        arguments = json.dumps({"box": box}) if as_text else {"box": box}
        call = {"id": number, "type": "function", "function": {"name": "look", "arguments": arguments}}
        return [
            {"role": "assistant", "content": thought, "tool_calls": [call]},
            {"role": "tool", "name": "look", "tool_call_id": number, "content": answer},
        ]

    prompt = [{"role": "user", "content": _PROMPT}]
    once = [*prompt, *exchange("red", _FIRST)]
    return prompt, once, [*once, *exchange(_SECOND_BOX, _SECOND)]


def _begin_alike(mark: str, *texts: str) -> bool:
    """Whether texts are the same as far as the mark, which each holds."""
    return len({text.partition(mark)[0] if mark in text else text for text in texts}) == 1


def _check_with_verl(tokenizer: Any, template_kwargs: Mapping[str, Any], where: str, *, appends: bool) -> bool:
    """Have verl render a prompt, and append an answer as a rollout does; whether it and the model's family are there.

    Raises:
        InputError: it cannot.
    """
    from transformers import AutoConfig

    if find_spec("verl") is None:
        return False
    try:
        config = AutoConfig.from_pretrained(tokenizer.name_or_path, local_files_only=True)
        family = config.model_type
    except (OSError, ValueError, KeyError):
        return False
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    processor = load_processor(config, tokenizer.name_or_path, where)
    prompt, once, _ = _conversations("")
    does, fix = "render a prompt", "use the tokenizer and the template that the model came with"
    try:
        builder = create_continuous_token_builder(
            tokenizer, hf_model_type=family, chat_template_kwargs=dict(template_kwargs), processor=processor
        )
        ids = builder.build_initial_tokens(prompt, tools=[_TOOL])
        if not appends:
            return True
        does, fix = "append a tool's answer to a conversation", f"{fix}, {_STEPS}"
        said = [*ids, *tokenizer.encode(json.dumps({"box": "red"}), add_special_tokens=False), tokenizer.eos_token_id]
        builder.merge_context_tokens(once[:-1], once, said, tools=[_TOOL])
    except Exception as error:  # of a template, a tokenizer or verl: whatever it is, every rollout would meet it
        what = f"verl cannot {does} of a {family} model with this tokenizer: {error}"
        raise InputError(Problem(where, what, fix)) from error
    return True


@functools.cache
def _warn(text: str) -> None:
    """Once a process: a launch looks at its model more than once."""
    _log.warning(text)
