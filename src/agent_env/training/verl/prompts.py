"""How many tokens a row's first prompt has with its tools, rendered as verl's agent loop renders it.

verl renders the prompt through the tokenizer's chat template with the tools, the generation prompt and
``data.apply_chat_template_kwargs``, and cuts what is over ``rollout.prompt_length`` from the left: system prompt and
tools go first. Its own overlong filter does not see a row's tools. Hence a count of our own, before rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.training.verl.appending import check_appending
from agent_env.training.verl.models import load_config, load_tokenizer

BATCH = 256
"""Prompts tokenized at once: the tokenizer splits a batch over the cores."""

VERLS_OWN = frozenset(
    {"conversation", "messages", "tools", "tokenize", "add_generation_prompt", "return_dict", "return_tensors"}
)
"""Arguments of `apply_chat_template` that verl sets itself."""

Json = dict[str, Any]


class PromptCounter:
    """Counts tokens by a model's tokenizer and chat template.

    Args:
        model: a folder, or OWNER/NAME on the Hugging Face hub.
        template_kwargs: verl's ``data.apply_chat_template_kwargs``.
        option: what named the model, for messages.
        context: the layout, ``conversation`` or ``steps``.

    Raises:
        MissingExtra: transformers is not installed.
        InputError: the tokenizer cannot be loaded, has no chat template or one that does not append (see `appending`),
            or the arguments are not the template's.
    """

    def __init__(
        self,
        model: str,
        template_kwargs: Mapping[str, Any] | None = None,
        *,
        option: str = "--tokenizer",
        context: str = "conversation",
    ) -> None:
        kwargs = dict(template_kwargs or {})
        taken = sorted(VERLS_OWN & kwargs.keys())
        if taken:
            raise InputError(Problem("--chat-template-kwargs", f"verl sets {', '.join(taken)} itself"))
        self._tokenizer = load_tokenizer(model, option)
        self._where, self._kwargs = f"{option} {model!r}", kwargs
        check_appending(self._tokenizer, kwargs, self._where, context=context)

    def count(
        self,
        prompts: Sequence[tuple[list[Json], list[Json]]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[int]:
        """The tokens of each (messages, tools).

        Raises:
            InputError: the template refuses one of them.
        """
        groups: dict[int, list[int]] = {}
        for place, (_, tools) in enumerate(prompts):
            groups.setdefault(id(tools), []).append(place)
        counts = [0] * len(prompts)
        done = 0
        for places in groups.values():
            texts = [self._render(*prompts[place]) for place in places]
            shared, tails = self._without_shared_head(texts)
            for start in range(0, len(places), BATCH):
                lengths = self._lengths(tails[start : start + BATCH])
                for place, length in zip(places[start : start + BATCH], lengths, strict=True):
                    counts[place] = shared + length
                done += len(lengths)
                if progress is not None:
                    progress(done, len(prompts))
        return counts

    def _lengths(self, texts: list[str]) -> list[int]:
        encoded = self._tokenizer(texts, add_special_tokens=False, return_attention_mask=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def _without_shared_head(self, texts: list[str]) -> tuple[int, list[str]]:
        """A number of tokens that all texts share, and for each text one with just its other tokens.

        Most of a prompt is its tools, the same for all tasks of a toolset. A tokenizer splits a text at its special
        tokens before anything else, so what stands before one need not be tokenized again for every task. Whether this
        one does is seen on the shortest and the longest text; if not, nothing is taken off.
        """
        common = _common_start(min(texts), max(texts)) if len(texts) > 1 else ""
        ends = {
            common.rfind(token.content) + len(token.content): token.content
            for token in self._tokenizer.added_tokens_decoder.values()
            if token.special and not (token.lstrip or token.rstrip or token.single_word) and token.content in common
        }
        if not ends:
            return 0, texts
        end, token = max(ends.items())
        head, alone = self._lengths([common[:end], token])
        sample = [min(texts, key=len), max(texts, key=len)]
        tails = self._lengths([token + text[end:] for text in sample])
        if self._lengths(sample) != [head - alone + tail for tail in tails]:
            return 0, texts
        return head - alone, [token + text[end:] for text in texts]

    def _render(self, messages: list[Json], tools: list[Json]) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True, **self._kwargs
            )
        except Exception as error:  # a template is a program: it raises what it likes
            said = f"its chat template refuses {messages[-1]['content'][:60]!r}: {error}"
            raise InputError(Problem(self._where, said)) from error
        return str(text)


def check_model(model: str, option: str, template_kwargs: Mapping[str, Any], context: str) -> None:
    """Find out, without loading its weights, whether a model can be trained on prompts rendered so.

    Args:
        model, option, template_kwargs, context: as for `PromptCounter`.

    Raises:
        MissingExtra: transformers is not installed.
        InputError: with what is in the way.
    """
    load_config(model, option)
    PromptCounter(model, template_kwargs, option=option, context=context)


def _common_start(one: str, other: str) -> str:
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]
