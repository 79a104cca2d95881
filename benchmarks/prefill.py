"""Prompts that many rollouts share, computed once: the CPU's rollout server and trainer with and without.

In the step layout most prompts of a moment are the same (86 % in a trial on key_door): rollouts of a group that stand
in one state see one prompt. Here 128 requests have 18 distinct prompts of 120 tokens, and draw 12 tokens each, as the
server takes them; and again with a first token of its own before each prompt, so that nothing can be shared. Then the
rows that come of either go forwards and backwards through the model, as in an update. Processor time of one thread, the
best of three.

    python benchmarks/prefill.py
"""

from __future__ import annotations

import random
import time

import numpy as np
import torch
from transformers import Qwen3ForCausalLM

from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.tokenizer import learn_tokenizer
from agent_env.training.verl.cpu.generator import Generator
from agent_env.training.verl.cpu.shared_prompts import packed

REQUESTS, DISTINCT, PROMPT, DRAWN = 128, 18, 120, 12


def seconds(generator: Generator, prompts: list[list[int]], version: int) -> tuple[float, int]:
    """Processor time of all requests at new weights, and how many prompt tokens were reused."""
    import asyncio

    async def all_of_them() -> int:
        await generator.set_version(version)  # nothing of the run before is reused
        sampling = {"max_tokens": DRAWN, "ignore_eos": True}
        answers = await asyncio.gather(*(generator.generate(prompt, sampling) for prompt in prompts))
        return sum(answer.cached_tokens for answer in answers)

    begun = time.process_time()
    reused = asyncio.run(all_of_them())
    return time.process_time() - begun, reused


def learned(model: Qwen3ForCausalLM, prompts: list[list[int]]) -> float:
    """Processor time of an update's forward and backward pass over each prompt with a reply."""
    rows = [np.array([*prompt, *prompt[-DRAWN:]]) for prompt in prompts]
    begun = time.process_time()
    if lines := packed(rows, [len(prompt) for prompt in prompts]):
        logits = model(input_ids=lines.ids, attention_mask=lines.mask, position_ids=lines.positions).logits
        places = lines.places
    else:
        logits = model(input_ids=torch.from_numpy(np.stack(rows))).logits
        places = torch.arange(logits.shape[0] * logits.shape[1])
    logits, places = logits.flatten(0, 1), places.reshape(len(rows), -1)[:, -DRAWN - 1 : -1]
    told = torch.from_numpy(np.stack([row[-DRAWN:] for row in rows]))
    (logits.logsumexp(-1)[places] - logits[places, told]).mean().backward()
    model.zero_grad()
    return time.process_time() - begun


def main() -> None:
    torch.set_num_threads(1)
    rng = random.Random(0)
    tokenizer = learn_tokenizer([" ".join(str(rng.randrange(1000)) for _ in range(2000))])
    vocabulary = range(10, len(tokenizer))
    states = [[rng.choice(vocabulary) for _ in range(PROMPT)] for _ in range(DISTINCT)]
    shared = [states[number % DISTINCT] for number in range(REQUESTS)]
    alone = [[10 + number, *prompt] for number, prompt in enumerate(shared)]
    model = new_model(tokenizer, 0)
    generator = Generator(model, [tokenizer.eos_token_id], max_rows=REQUESTS, mode="processed_logprobs")
    try:
        seconds(generator, alone, 0)
        of_shared = min(seconds(generator, shared, 1 + number) for number in range(3))
        of_alone = min(seconds(generator, alone, 10 + number) for number in range(3))
    finally:
        generator.close()
    model.train().requires_grad_()
    in_lines, in_rows = (min(learned(model, prompts) for _ in range(3)) for prompts in (shared, alone))
    total = REQUESTS * PROMPT
    print(f"{REQUESTS} requests, {DISTINCT} distinct prompts of {PROMPT} tokens, {DRAWN} tokens drawn each")
    print(f"  shared prompts once  {of_shared[0]:6.2f} s   {of_shared[1]:,} of {total:,} prompt tokens reused")
    print(f"  each for itself      {of_alone[0]:6.2f} s   {of_alone[1]:,} reused")
    print(f"  {of_alone[0] / of_shared[0]:.1f} times as fast")
    print("an update on them")
    print(f"  shared prompts once  {in_lines:6.2f} s")
    print(f"  each for itself      {in_rows:6.2f} s")
    print(f"  {in_rows / in_lines:.1f} times as fast")


if __name__ == "__main__":
    main()
