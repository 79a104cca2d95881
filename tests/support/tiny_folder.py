"""A folder with a tiny untrained model and its tokenizer, as verl and transformers load it."""

from __future__ import annotations

from pathlib import Path

from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.tokenizer import learn_tokenizer


def tiny_folder(folder: Path, *, seed: int = 0) -> Path:
    """Write the model and the tokenizer into `folder`; the same seed gives the same weights."""
    tokenizer = learn_tokenizer(["a few words for a tokenizer to be learned from", "and a few more words"])
    tokenizer.save_pretrained(folder)
    new_model(tokenizer, seed).save_pretrained(folder)
    return folder
