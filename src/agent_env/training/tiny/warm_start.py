"""The warm start: a tiny model that has learned to play a bundle from its demonstrator, mistakes included.

Supervised learning on the tokens the model itself would say. What it is taught is how a rollout goes (which tools,
when, in what form) and a way to play that leaves room: the demonstrator errs at a given rate, so the model's reward
starts well above chance and well below what the task allows, which is where reinforcement learning begins.

A play is one sample in the conversation layout; in the step layout each of its steps is one.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import DynamicCache, PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from agent_env.bundle import Bundle
from agent_env.demonstrator import Demonstration
from agent_env.errors import InputError
from agent_env.training.folder import replacing
from agent_env.training.model_layout import RECORD
from agent_env.training.step_options import StepOptions
from agent_env.training.tasks import Progress
from agent_env.training.tiny.conversations import Conversation, Tokens, conversation_of, text_of, tokens_of
from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.plays import plays
from agent_env.training.tiny.steps import demonstrated_steps
from agent_env.training.tiny.tokenizer import blank_tokenizer, learn_tokenizer

PARTS = 2  # of a step's samples, each computed by a thread of its own
READ = 400  # conversations the tokenizer is learned from
_RISE = 20


@dataclass(frozen=True)
class Sizes:
    """What differs between the layouts.

    Args:
        steps: of supervised learning, unless told otherwise.
        error_rate: of the demonstrator, unless told otherwise. Single steps that differ in a letter or two need more of
            them, and surer ones.
        plays: over all tasks, about.
        batch: samples a step: whole conversations, or single steps, which are short.
        peak: learning rate, reached after `_RISE` steps and falling to a tenth of it along a cosine.
        spread: of the model's fresh weights. At this width, with tied embeddings, single steps are learned far faster
            from a wide one.
    """

    steps: int
    error_rate: float
    plays: int
    batch: int
    peak: float
    spread: float


# Of 1,600 plays each is seen three times.
CONVERSATION = Sizes(steps=300, error_rate=0.3, plays=1600, batch=16, peak=3e-3, spread=0.02)
STEPS = Sizes(steps=500, error_rate=0.1, plays=800, batch=32, peak=1e-3, spread=0.08)


@dataclass(frozen=True)
class WarmStart:
    """How a model was made, written beside it as ``warm_start.json``.

    Args:
        demonstrated: mean reward of the demonstrator's plays it learned from.
        loss: mean cross-entropy over the last tenth of the steps, nats a token.
    """

    bundle: str
    split: str
    context: Literal["conversation", "steps"]
    error_rate: float
    steps: int
    seed: int
    plays: int
    samples: int
    vocabulary: int
    parameters: int
    demonstrated: float
    loss: float


def warm_start(
    bundle: Bundle,
    out: Path,
    *,
    split: str = "train",
    layout: StepOptions | None = None,
    error_rate: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    progress: Progress = lambda what, done, of: None,
) -> WarmStart:
    """Make a tokenizer and a model for a bundle, teach it the demonstrator's plays, and write both to the folder `out`.

    The same arguments give the same files, bit for bit, on one machine.

    Args:
        layout: the step layout's options, for a model that plays in it; None for one that plays in a conversation.
        error_rate: 0..1, handed to the demonstrator; the layout's if None.
        steps: of supervised learning; the layout's if None.

    Raises:
        InputError: there is nothing to learn from, or `out` cannot be written.
        EpisodeError: the environment or the demonstrator failed.
    """
    size = CONVERSATION if layout is None else STEPS
    steps = size.steps if steps is None else steps
    error_rate = size.error_rate if error_rate is None else error_rate
    times = math.ceil(min(size.plays, steps * size.batch) / len(bundle.to_demonstrate(split)))
    played = plays(bundle, split, times=times, error_rate=error_rate, seed=seed, progress=progress)
    tokenizer, conversations = taught(bundle, played, layout)
    model = new_model(tokenizer, seed, spread=size.spread)
    samples = tokens_of(conversations, tokenizer)
    for conversation, tokens in zip(conversations, samples, strict=True):
        if len(tokens.ids) > model.config.max_position_embeddings:
            raise InputError(
                f"task {conversation.task!r} is played in {len(tokens.ids)} tokens, and the tiny model reads "
                f"{model.config.max_position_embeddings}: shorten its prompts or the tools' answers"
            )
    with _one_thread_each():
        losses = list(
            learn(model, samples, steps=steps, batch=size.batch, peak=size.peak, seed=seed, progress=progress)
        )
    last = losses[-max(1, steps // 10) :]
    made = WarmStart(
        bundle=bundle.name,
        split=split,
        context="conversation" if layout is None else "steps",
        error_rate=error_rate,
        steps=steps,
        seed=seed,
        plays=len(played),
        samples=len(samples),
        vocabulary=len(tokenizer),
        parameters=sum(weights.numel() for weights in model.parameters()),
        demonstrated=sum(play.ended.reward for play in played) / len(played),
        loss=sum(last) / len(last),
    )
    disable_progress_bar()  # of writing: it takes no time worth one
    with replacing(out, stale=lambda file: False) as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        (folder / RECORD).write_text(json.dumps(asdict(made), indent=2) + "\n", encoding="utf-8")
        for file in folder.iterdir():  # safetensors lets nobody else read its file
            shutil.copymode(folder / RECORD, file)
    return made


def taught(
    bundle: Bundle, played: Sequence[Demonstration], layout: StepOptions | None
) -> tuple[PreTrainedTokenizerFast, list[Conversation]]:
    """A tokenizer learned from what was played, and what a model is taught of it."""
    blank = blank_tokenizer()
    if layout is None:
        conversations = [conversation_of(bundle, play) for play in played]
        return learn_tokenizer([text_of(conversation, blank) for conversation in conversations[:READ]]), conversations
    # Read whole, then as the tokenizer learned from that makes them fit.
    whole = demonstrated_steps(bundle, played[:READ], layout, blank)
    tokenizer = learn_tokenizer([text_of(step, blank) for step in whole[:: math.ceil(len(whole) / READ)]])
    return tokenizer, demonstrated_steps(bundle, played, layout, tokenizer)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Torch computes in the calling thread alone: sums come out the same on every number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def learn(
    model: Qwen3ForCausalLM,
    samples: Sequence[Tokens],
    *,
    steps: int,
    batch: int,
    peak: float,
    seed: int,
    progress: Progress,
) -> Iterator[float]:
    """Train a model on what is said in `samples`, `batch` of them a step; yields each step's loss, nats a token.

    A step's samples are computed in `PARTS`, side by side: always so many, and added up in their order, so that
    the same model comes out on every number of cores.
    """
    order = _shuffled(samples, random.Random(f"order {seed}"))
    shared = shared_start(samples)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=peak, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))

    def part(drawn: Sequence[Tokens]) -> tuple[float, tuple[torch.Tensor, ...]]:
        loss = cross_entropy(model, drawn, shared)
        return loss.item(), torch.autograd.grad(loss, weights)

    model.train()
    with ThreadPoolExecutor(PARTS) as pool:
        for step in range(steps):
            drawn = [next(order) for _ in range(batch)]
            said = sum(sum(sample.mask) for sample in drawn)
            parts = list(pool.map(part, [drawn[number::PARTS] for number in range(PARTS)]))
            for place, weight in enumerate(weights):
                weight.grad = sum((gradients[place] for _, gradients in parts[1:]), parts[0][1][place]) / said
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            progress("learning", step + 1, steps)
            yield sum(loss for loss, _ in parts) / said
    model.eval()


def shared_start(samples: Sequence[Tokens]) -> int:
    """How many tokens all samples begin with; less than come before what the model says first in any of them."""
    one, other = min(sample.ids for sample in samples), max(sample.ids for sample in samples)
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return max(0, min(same, *(sample.mask.index(True) - 1 for sample in samples)))


def cross_entropy(model: Qwen3ForCausalLM, samples: Sequence[Tokens], shared: int) -> torch.Tensor:
    """Sum over the tokens said in a batch, nats.

    The first `shared` tokens are computed once for all: system prompt and tools are a good part of a conversation.
    Padding is on the right, where causal attention never sees it.
    """
    width = max(len(sample.ids) for sample in samples)
    ids = torch.tensor([[*sample.ids, *[0] * (width - len(sample.ids))] for sample in samples])
    said = torch.tensor([[*sample.mask, *[False] * (width - len(sample.mask))] for sample in samples])
    cache = DynamicCache()
    if shared:
        model.model(input_ids=ids[:1, :shared], past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(samples))
    hidden = model.model(input_ids=ids[:, shared:], past_key_values=cache, use_cache=True).last_hidden_state[:, :-1]
    targets = said[:, shared + 1 :]
    return torch.nn.functional.cross_entropy(
        model.lm_head(hidden[targets]), ids[:, shared + 1 :][targets], reduction="sum"
    )


def _shuffled(samples: Sequence[Tokens], rng: random.Random) -> Iterator[Tokens]:
    """All samples in random order, and again, without end."""
    while True:
        yield from rng.sample(samples, len(samples))


def _rate(step: int, steps: int) -> float:
    """The learning rate of a step as a share of its peak."""
    return min(1.0, (step + 1) / _RISE) * (0.1 + 0.9 * (1 + math.cos(math.pi * step / steps)) / 2)
