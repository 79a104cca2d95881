"""Pictures in a prompt, as the CPU rollout needs them: what they are compared by, where they stand, what is seen.

Served are models that add what they see to the embeddings of placeholder tokens and tell places apart by M-RoPE:
Qwen2-VL and Qwen2.5-VL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agent_env.errors import InputError, Problem

SEEING = ("qwen2_vl", "qwen2_5_vl")
"""Families of models, by ``model_type``, whose pictures are served."""


@dataclass(eq=False)
class Pictures:
    """The pictures of one prompt.

    Attributes:
        keys: of each token of the prompt, ``(tokens,)``: its id or, for a placeholder, a negative number of its
            picture. Prompts with equal keys are equal, pictures included.
        places: where in its picture's features each token is, ``(tokens,)``; -1 for a token of text.
        rope: M-RoPE's time, height and width of each token, ``(3, tokens)``.
        shift: from a position behind the prompt to its place in all three.
        pixels: what the processor made of them, ``(patches, channels × patch)``; grid: each one's time, height and
            width in patches, ``(pictures, 3)``.
        features: what the model sees in them, ``(placeholders, hidden)``; None until it has looked.
    """

    keys: np.ndarray
    places: np.ndarray
    rope: np.ndarray
    shift: int
    pixels: torch.Tensor
    grid: torch.Tensor
    features: torch.Tensor | None = None

    def look(self, model: Any) -> torch.Tensor:
        """`features`, by the model's own vision part."""
        if self.features is None:
            seen = model.model.get_image_features(self.pixels, self.grid).pooler_output
            self.features = torch.cat(tuple(seen), dim=0)
        return self.features


def pictures_of(
    processor: Any, prompt_ids: Sequence[int], images: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Pictures:
    """The pictures of a prompt whose placeholders are there already.

    Args:
        processor: of the model, as verl loads it.
        images: Pillow images, in the order of their placeholders.
        kwargs: verl's ``mm_processor_kwargs``.

    Raises:
        InputError: the prompt has not as many placeholders as the pictures take.
    """
    ids = np.asarray(prompt_ids, dtype=np.int64)
    made = processor.image_processor(images=list(images), return_tensors="pt", **(kwargs or {}))
    grid, pixels = made["image_grid_thw"], made["pixel_values"]
    sizes = (grid.prod(-1) // processor.image_processor.merge_size**2).tolist()
    stand = ids == processor.image_token_id
    if int(stand.sum()) != sum(sizes):
        what = f"has {int(stand.sum())} placeholders, and {len(sizes)} pictures that take {sizes}"
        raise InputError(Problem("the prompt", what, "build prompt and pictures with one processor"))
    keys, places = ids.copy(), np.full(len(ids), -1)
    keys[stand] = np.repeat([_number(image) for image in images], sizes)
    places[stand] = np.arange(sum(sizes))
    token_ids = torch.from_numpy(ids)[None]
    rope, shift = processor.get_rope_index(
        input_ids=token_ids,
        mm_token_type_ids=torch.from_numpy(stand.astype(np.int64))[None],
        image_grid_thw=grid,
        attention_mask=torch.ones_like(token_ids),
    )
    return Pictures(keys, places, rope[:, 0].numpy(), int(shift), pixels, grid)


def _number(image: Any) -> int:
    """A negative number that equal pictures share."""
    digest = hashlib.blake2b(repr((image.mode, image.size)).encode() + image.tobytes(), digest_size=7).digest()
    return -1 - int.from_bytes(digest, "big")
