"""A Qwen3-architecture model of about 0.7 million parameters."""

from __future__ import annotations

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_env.training.tiny.tokenizer import number_of

_HIDDEN = 128


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int, *, spread: float = 0.02) -> Qwen3ForCausalLM:
    """A model with fresh float32 weights, one embedding a token of `tokenizer`. The same seed gives the same weights.

    The embeddings of numbers start from a smooth code, so that 7 lies between 6 and 8 before the first step: values
    compared with each other are what a small model learns last from a blank start.

    Args:
        spread: standard deviation of the fresh weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(tokenizer),
                hidden_size=_HIDDEN,
                intermediate_size=384,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=32,
                max_position_embeddings=4096,
                initializer_range=spread,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                dtype="float32",
            )
        )
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    embeddings = model.get_input_embeddings().weight
    values = {token: number_of(tokenizer.decode([token])) for token in range(len(tokenizer))}
    numbers = {token: value for token, value in values.items() if value is not None}
    with torch.no_grad():
        codes = _smooth_code(torch.tensor([float(value) for value in numbers.values()]))
        embeddings[torch.tensor(list(numbers))] = codes * embeddings.std()
    return model


def _smooth_code(values: torch.Tensor) -> torch.Tensor:
    """Sines and cosines of each value in wavelengths from 4 to 400, shape (values, hidden), with a mean square of 1."""
    wavelengths = 4 * 100 ** torch.linspace(0, 1, _HIDDEN // 2)
    angles = 2 * torch.pi * values[:, None] / wavelengths
    return 2**0.5 * torch.cat([angles.sin(), angles.cos()], dim=1)
