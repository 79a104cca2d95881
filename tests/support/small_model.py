"""A small random model with a peaked distribution, and what a forward over a whole sequence says of it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agent_env.training.verl.cpu.slots import register_attention

VOCABULARY = 97


def small_model(seed: int = 0, *, attention: str | None = None, layers: int = 2) -> Qwen3ForCausalLM:
    """Four query heads over two key-value heads, and weights wide enough that tokens differ much in probability."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        initializer_range=0.2,
        attn_implementation=attention or register_attention(),
    )
    torch.set_num_threads(1)  # a second thread makes a model of this size slower, and much so beside other work
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).float().eval()


def teacher_forced(
    model: torch.nn.Module, prompt: Iterable[int], response: Iterable[int], temperature: float = 1.0
) -> list[float]:
    """Log-probabilities of a response's tokens, from one forward over the whole sequence without any cache."""
    prompt, response = list(prompt), list(response)
    if not response:
        return []
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1].float()
    log_probs = (logits / (temperature or 1.0)).log_softmax(-1)
    return log_probs.gather(1, torch.tensor(response)[:, None])[:, 0].tolist()


def largest_difference(one: Iterable[float], other: Iterable[float]) -> float:
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)
