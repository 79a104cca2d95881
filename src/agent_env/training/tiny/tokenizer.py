"""A byte-level BPE tokenizer learned from a bundle's own conversations, with a hermes-style chat template.

A model of this size can afford few tokens and no spelling, so before any merge text is cut into

* numbers of up to two digits, with their sign: every integer from -99 to 99 is one token, seen in training or not;
* capitals on their own, so that a code such as ``CHHD`` is a token a letter;
* signs in a row of single letters and signs, so that a drawn grid such as ``# . A`` is a token a cell;
* line ends, one token each (verl's continuous-token builders need that);
* everything between, in which two kinds of pairs are merged: within a word that is seen a few times, and across words
  what is seen as often as there are conversations. So the boilerplate (system prompt, tools, the shape of a call) is a
  few long tokens, and what differs from one conversation to the next stays readable word by word.

Bytes are the alphabet, so no text is unencodable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MARKERS = ("<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
CHAT_TEMPLATE = resources.files(__package__).joinpath("chat_template.jinja").read_text(encoding="utf-8")

_NUMBER = r" ?-?\d{1,2}"
_CODE = r" ?\p{Lu}(?!\p{Ll})"
_SIGN = r"(?: |(?<!\S))[^\w\s\"{\[](?= \S(?!\S)|\n|\z)"  # but for those that open JSON
_LONGEST = 250  # characters of a token: merging takes time with the square of it
_PIECES = rf"\n|{_NUMBER}|{_CODE}|{_SIGN}|(?:(?!{_NUMBER}|{_CODE}|{_SIGN})[^\n]){{1,{_LONGEST}}}"
_WORD = re.compile(r" ?[^\W\d_]+")
_SEEN = 5  # a word seen less often is left in parts
_VOCABULARY = 8192  # a bound, not an aim


def learn_tokenizer(conversations: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer learned from rendered conversations. The same conversations give the same one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    markers = re.compile("|".join(re.escape(marker) for marker in (PAD, START, END, *MARKERS)))
    texts = [text for conversation in conversations for text in markers.split(conversation)]
    words = Counter(word for text in texts for word in _WORD.findall(text))
    whole = [word for word, seen in sorted(words.items()) if seen >= _SEEN]
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        min_frequency=len(conversations),
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # Words and numbers are shown as often as a merge needs, so each becomes one token.
    tokenizer.train_from_iterator([*texts, *[*whole, *_numbers()] * len(conversations)], trainer)
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in MARKERS])
    return _with_template(tokenizer)


def blank_tokenizer() -> PreTrainedTokenizerFast:
    """One that knows the chat template and no token: it renders conversations, for a tokenizer to be learned from."""
    return _with_template(Tokenizer(models.BPE()))


def _with_template(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
        model_max_length=32768,
        chat_template=CHAT_TEMPLATE,
    )


def number_of(token: str) -> int | None:
    """The integer a token's text stands for, or None for a token that is not a number."""
    return int(token) if re.fullmatch(_NUMBER, token, re.ASCII) else None


def _numbers() -> list[str]:
    digits = [str(n) for n in range(100)] + [f"0{n}" for n in range(10)]
    return [space + sign + number for space in ("", " ") for sign in ("", "-") for number in digits]
