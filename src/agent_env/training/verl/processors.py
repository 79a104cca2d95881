"""Processors of models that see: transformers' own and, without torchvision, the same for pictures alone.

transformers gives Qwen's processors a part for videos, and that needs torchvision, whose published builds want CUDA.
Pictures do not: where torchvision is not installed, Qwen's processors are made without that part.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from importlib.util import find_spec
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.training.verl.hooks import after_import

_QWEN = {"qwen2_vl": "Qwen2VLProcessor", "qwen2_5_vl": "Qwen2_5_VLProcessor", "qwen3_vl": "Qwen3VLProcessor"}
_done: set[str] = set()


def register_processors() -> None:
    """Where torchvision is not installed, let Qwen's processors do without. Safe to call again."""
    if find_spec("torchvision") is not None:
        return
    for family, name in _QWEN.items():
        if family not in _done:
            _done.add(family)
            after_import(f"transformers.models.{family}.processing_{family}", partial(_replace, family, name))


def load_processor(config: Any, name: str, where: str) -> Any:
    """The processor of a model as verl loads it; None for a model of text alone.

    Args:
        config: of the model, transformers'.
        name: of the model, or its folder.
        where: it was named, for the message.

    Raises:
        InputError: the model sees, and its processor cannot be loaded.
    """
    if not hasattr(config, "vision_config"):
        return None
    register_processors()
    from verl.utils.tokenizer import hf_processor

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        processor = hf_processor(name)
    if processor is None:
        why = next((str(one.message) for one in said if "processor" in str(one.message)), "verl does not know it")
        raise InputError(Problem(where, f"its processor for pictures cannot be loaded: {why}"))
    return processor


def _replace(family: str, name: str) -> None:
    package = f"transformers.models.{family}"
    module = sys.modules[f"{package}.processing_{family}"]
    alone = _without_videos(getattr(module, name))
    setattr(module, name, alone)
    if name in vars(sys.modules[package]):
        setattr(sys.modules[package], name, alone)


def _without_videos(original: Any) -> Any:
    """A processor's class without its part for videos.

    Which parts a processor has transformers reads from the arguments of its ``__init__``.
    """

    class Processor(original):
        def __init__(
            self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None, **kwargs: Any
        ) -> None:
            super().__init__(image_processor, tokenizer, None, chat_template=chat_template, **kwargs)

    Processor.__name__, Processor.__qualname__, Processor.__module__ = (
        original.__name__,
        original.__qualname__,
        original.__module__,
    )
    return Processor
