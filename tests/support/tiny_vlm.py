"""A random Qwen2.5-VL of some hundred thousand parameters with its processor, made here: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agent_env.training.tiny.tokenizer import CHAT_TEMPLATE, learn_tokenizer
from agent_env.training.verl.processors import register_processors

VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
PATCH, MERGE = 8, 2
"""Pixels of a patch, and patches, that are one token: 6×6 tokens for a room of 96×96 pixels."""

# As Qwen2.5-VL's template: a message's content is a text, or texts and pictures in a list.
_CONTENT = """{%- macro said(content) -%}
    {%- if content is string -%}{{- content -}}{%- else -%}
        {%- for block in content -%}
            {%- if block.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- else -%}{{- block.text -}}{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
"""
TEMPLATE = _CONTENT + CHAT_TEMPLATE.replace("{{- message.content }}", "{{- said(message.content) }}").replace(
    "{{- messages[0].content }}", "{{- said(messages[0].content) }}"
)


def seeing_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer learned from texts, with a template that has places for pictures."""
    tokenizer = learn_tokenizer(texts)
    # As Qwen's: placeholders are special, so decoding leaves them out.
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken(name, special=True) for name in VISION]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def write_vlm(folder: Path, texts: Sequence[str], seed: int = 0, *, spread: float = 0.05) -> Path:
    """Write model and processor into a folder.

    Args:
        texts: that the tokenizer is learned from.
        spread: standard deviation of the weights.
    """
    register_processors()
    from transformers import Qwen2_5_VLProcessor

    tokenizer = seeing_tokenizer(texts)
    numbers = dict(zip(VISION, tokenizer.convert_tokens_to_ids(list(VISION)), strict=True))
    images = Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=MERGE, min_pixels=(PATCH * MERGE) ** 2, max_pixels=320 * 320
    )
    processor = Qwen2_5_VLProcessor(image_processor=images, tokenizer=tokenizer, chat_template=TEMPLATE)
    processor.save_pretrained(folder)
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(_config(tokenizer, numbers, spread)).float()
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    model.save_pretrained(folder)
    return folder


def _config(tokenizer: PreTrainedTokenizerFast, numbers: dict[str, int], spread: float) -> Any:
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]},
        "initializer_range": spread,
        "tie_word_embeddings": True,
        **ends,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "window_size": 4 * PATCH * MERGE,
        "fullatt_block_indexes": [1],
        "initializer_range": spread,
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
        tie_word_embeddings=True,
        **ends,
    )
