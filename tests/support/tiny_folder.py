"""A folder with a tiny untrained model and its tokenizer, as verl and transformers load it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.tokenizer import learn_tokenizer

WORDS = ("a few words for a tokenizer to be learned from", "and a few more words")


def tiny_folder(folder: Path, *, seed: int = 0, words: Sequence[str] = WORDS) -> Path:
    """Write the model and the tokenizer into `folder`; the same seed gives the same weights.

    Args:
        words: what the tokenizer is learned from; what is in all of them is few tokens.
    """
    tokenizer = learn_tokenizer(words)
    tokenizer.save_pretrained(folder)
    new_model(tokenizer, seed).save_pretrained(folder)
    return folder
