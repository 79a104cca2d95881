"""A tiny Qwen3 with Qwen3's own tokenizer that has learned to call a bundle's tools.

A model with random weights calls no tool, and gives every token of the vocabulary about the same small probability,
so that two engines agree on it whatever their weights are. A minute on a demonstrator's plays make both worth a
look: there are second turns, and the probabilities lie between 0 and 1.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GenerationConfig, Qwen3Config, Qwen3ForCausalLM
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from agent_env.bundle import load_bundle
from agent_env.training.tiny.conversations import Conversation, Tokens, demonstrate

BATCH = 6
NEGATIVES = 2048


def make_policy(tokenizer_folder: Path, out: Path, bundles: Sequence[str], *, steps: int, seed: int = 0) -> float:
    """Write a model and its tokenizer to `out`; returns the last step's loss, nats a token."""
    torch.set_num_threads(1)  # more of them wait for each other longer than they compute
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    samples = [
        tokens_of(conversation, tokenizer)
        for bundle in bundles
        for conversation in demonstrate(
            load_bundle(bundle), "train", times=1, error_rate=0.0, seed=seed, progress=lambda what, done, of: None
        )[:100]
    ]
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),  # verl masks what is beyond it in vLLM alone
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,  # the least that vLLM's attention on the CPU has
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )
    )
    loss = learn(model, samples, steps=steps, seed=seed)
    with torch.no_grad():
        # The logits times 2.5. Else the 150,000 tokens that never occur hold a thousandth of the probability together
        # and each too little to change a float32 sum: engines that sum in another order would differ by that
        # thousandth. (Times 2, what is lost that way is still up to 4e-5 of a position; now it is under 1e-6.)
        model.model.norm.weight *= 2.5
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)
    return loss


def tokens_of(conversation: Conversation, tokenizer: Any) -> Tokens:
    """A play's tokens, put together as verl's loop would, without thinking."""
    builder = create_continuous_token_builder(
        tokenizer, hf_model_type="qwen3", chat_template_kwargs={"enable_thinking": False}
    )
    tools = list(conversation.tools)
    heard: list[dict[str, Any]] = []
    ids: list[int] = []
    mask: list[bool] = []
    for place, message in enumerate(conversation.messages):
        if message["role"] != "assistant":
            continue
        before = list(conversation.messages[:place])
        if ids:
            ids = builder.merge_context_tokens(heard, before, ids, tools=tools).token_ids
        else:
            ids = builder.build_initial_tokens(before, tools=tools)
        mask += [False] * (len(ids) - len(mask))
        ids = builder.merge_assistant_tokens(ids, tokenizer.encode(said(message), add_special_tokens=False)).token_ids
        mask += [True] * (len(ids) - len(mask))
        heard = [*before, message]
    return Tokens(tuple(ids), tuple(mask))


def said(message: dict[str, Any]) -> str:
    """What the model has to write for a message: its text and its calls, in hermes' form."""
    calls = [
        f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
        for call in message.get("tool_calls", [])
    ]
    return "\n".join([text for text in (message["content"], *calls) if text]) + "<|im_end|>"


def learn(model: Qwen3ForCausalLM, samples: Sequence[Tokens], *, steps: int, seed: int) -> float:
    """Supervised learning on what is said, by a softmax over the tokens that occur and a sample of all others.

    The sample stands for the whole vocabulary of 150,000 (its logits are raised by the log of the share it is), at a
    small part of the cost.
    """
    vocabulary = model.config.vocab_size
    seen = torch.tensor(sorted({token for sample in samples for token in sample.ids}))
    place = torch.full((vocabulary,), -1)
    place[seen] = torch.arange(len(seen))
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.95), weight_decay=0.0)
    loss = torch.zeros(())
    model.train()
    for _ in range(steps):
        batch = rng.sample(samples, BATCH)
        width = max(len(sample.ids) for sample in batch)
        ids = torch.tensor([[*sample.ids, *[0] * (width - len(sample.ids))] for sample in batch])
        speaks = torch.tensor([[*sample.mask, *[False] * (width - len(sample.mask))] for sample in batch])[:, 1:]
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][speaks]
        others = torch.randint(0, vocabulary, (NEGATIVES,), generator=generator)
        logits = hidden @ model.lm_head.weight[torch.cat([seen, others])].T
        raised = (logits[:, len(seen) :] + math.log(vocabulary / NEGATIVES)).masked_fill(place[others] >= 0, -math.inf)
        logits = torch.cat([logits[:, : len(seen)], raised], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, place[ids[:, 1:][speaks]])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    return loss.item()
