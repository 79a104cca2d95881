"""How a row's next token is drawn: its parameters, checked once, and the draw itself, over all rows at once.

The order of operations, and what is reported, are vLLM's (`vllm.v1.sample.sampler`), because verl's loss and its
rollout correction were written for it: temperature, then top-k (ties at the k-th value are kept), then top-p over what
is left; ``processed_logprobs`` are log-probabilities under the distribution that was drawn from, ``raw_logprobs`` those
of the model's own logits. With verl's defaults (temperature 1, no top-k, no top-p) the two are the same number, and it
is the number the actor computes. ``logit_bias`` comes before all of these, and is in ``processed_logprobs`` alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from agent_env.errors import InputError, Problem

LogprobsMode = Literal["processed_logprobs", "raw_logprobs"]

_KNOWN = (
    "temperature",
    "top_k",
    "top_p",
    "max_tokens",
    "max_new_tokens",
    "min_tokens",
    "stop_token_ids",
    "ignore_eos",
    "seed",
    "logprobs",
    "repetition_penalty",
    "logit_bias",
)
_GREEDY_BELOW = 1e-5


@dataclass(frozen=True)
class Sampling:
    """The checked parameters of one request; `top_k` 0 and `top_p` 1 mean no restriction.

    `bias` is added to the logits of tokens before anything else is done with them.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_tokens: int = 0
    stop_ids: frozenset[int] = frozenset()
    seed: int | None = None
    logprobs: bool = True
    bias: Mapping[int, float] = field(default_factory=dict)

    @property
    def greedy(self) -> bool:
        return self.temperature < _GREEDY_BELOW

    @property
    def restricted(self) -> bool:
        return not self.greedy and (self.top_k > 0 or self.top_p < 1.0)


def parse_sampling(
    params: Mapping[str, Any], *, room: int, default_max_tokens: int, eos_ids: Collection[int], ignore_eos: bool = False
) -> Sampling:
    """Check a request's sampling parameters as verl sends them (vLLM's names, and SGLang's ``max_new_tokens``).

    Args:
        params: what the agent loop passed on.
        room: tokens that fit behind the prompt in the model's context; `max_tokens` is cut to it, as verl does.
        default_max_tokens: used where the request names no limit.
        eos_ids: end a response, unless the request ignores them.
        ignore_eos: the default of the request's ``ignore_eos``.

    Raises:
        InputError: with every parameter that is unknown, unsupported or out of range.
    """
    problems: list[Problem] = []

    def number(name: str, default: float, low: float, high: float, wanted: str, *, whole: bool = False) -> float:
        value = params.get(name)
        if value is None:
            return default
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or (whole and int(value) != value) or not low <= value <= high:
            problems.append(Problem(name, f"is {value!r}", f"expected {wanted}"))
            return default
        return float(value)

    unknown = sorted(set(params) - set(_KNOWN))
    if unknown:
        problems.append(Problem(", ".join(unknown), "not supported by the CPU rollout", f"use {', '.join(_KNOWN)}"))
    whole = math.inf
    temperature = number("temperature", 1.0, 0.0, 1e6, "a number from 0 (greedy) up")
    top_k = int(number("top_k", -1, -1, whole, "a whole number; -1 or 0 for no restriction", whole=True))
    top_p = number("top_p", 1.0, math.nextafter(0, 1), 1.0, "a number above 0, up to 1")
    limit = "max_tokens" if params.get("max_tokens") is not None else "max_new_tokens"
    max_tokens = int(number(limit, default_max_tokens, -whole, whole, "a whole number of tokens", whole=True))
    min_tokens = int(number("min_tokens", 0, 0, whole, "a whole number from 0 up", whole=True))
    if number("repetition_penalty", 1.0, 0.0, whole, "1.0, the only one the CPU rollout knows") != 1.0:
        problems.append(Problem("repetition_penalty", f"is {params['repetition_penalty']!r}", "only 1.0 is supported"))
    seed = params.get("seed")
    if seed is not None and not isinstance(seed, int):
        problems.append(Problem("seed", f"is {seed!r}", "expected a whole number"))
    stop_ids = params.get("stop_token_ids") or ()
    if isinstance(stop_ids, str | bytes) or not all(isinstance(token, int) for token in stop_ids):
        problems.append(Problem("stop_token_ids", f"is {stop_ids!r}", "expected a list of token ids"))
    bias = params.get("logit_bias") or {}
    good = isinstance(bias, Mapping) and all(
        isinstance(token, int) and isinstance(value, int | float) and -100 <= value <= 100
        for token, value in bias.items()
    )
    if not good:
        problems.append(Problem("logit_bias", f"is {bias!r}", "expected token ids with numbers from -100 to 100"))
    if problems:
        raise InputError(problems)
    ends = frozenset(stop_ids) | (frozenset() if params.get("ignore_eos", ignore_eos) else frozenset(eos_ids))
    max_tokens = max(1, min(max_tokens, room))
    asked = params.get("logprobs", True)
    return Sampling(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=max(top_k, 0),
        top_p=top_p,
        min_tokens=min(min_tokens, max_tokens),
        stop_ids=ends,
        seed=seed,
        logprobs=asked is not False and asked is not None,
        bias=dict(bias),
    )


def draw(
    logits: torch.Tensor,
    rows: Sequence[Sampling],
    uniforms: Sequence[float],
    *,
    forbidden: Mapping[int, Collection[int]] = {},
    mode: LogprobsMode = "processed_logprobs",
) -> tuple[list[int], list[float]]:
    """Draw one token for each row by inverting its cumulative distribution at the row's own uniform number.

    A row's token depends on its own logits and its own number alone, never on which rows share its batch.

    Args:
        logits: shape ``(rows, vocabulary)``, any float type.
        rows: the parameters of each row.
        uniforms: one number in ``[0, 1)`` for each row; not read for a greedy row.
        forbidden: token ids a row may not draw now (the stop ids, before `min_tokens`), by row number.
        mode: which log-probability to report.

    Returns:
        The tokens and their log-probabilities (nats). A log-probability that is not finite means that the row's logits
        hold NaN, +inf or nothing to draw from; its token means nothing.
    """
    logits = logits.float()
    reported = logits.log_softmax(-1) if mode == "raw_logprobs" else None
    if forbidden or any(row.bias for row in rows):
        logits = logits.clone()
        for number, row in enumerate(rows):
            if row.bias:
                logits[number, list(row.bias)] += torch.tensor([*row.bias.values()], dtype=logits.dtype)
        for number, tokens in forbidden.items():
            logits[number, list(tokens)] = -math.inf
    if any(row.temperature != 1.0 and not row.greedy for row in rows):
        heat = torch.tensor([1.0 if row.greedy else row.temperature for row in rows], dtype=logits.dtype)
        logits = logits / heat[:, None]
    picked = [number for number, row in enumerate(rows) if row.restricted]
    if picked:
        if len(picked) < len(rows):
            index = torch.tensor(picked)
            logits = logits.index_copy(0, index, _restrict(logits[index], [rows[i] for i in picked]))
        else:
            logits = _restrict(logits, rows)
    log_probs = logits.log_softmax(-1)
    tokens = _invert(log_probs, uniforms)
    if any(row.greedy for row in rows):
        greedy = torch.tensor([row.greedy for row in rows])
        tokens = torch.where(greedy, log_probs.argmax(-1), tokens)
    reported = log_probs if reported is None else reported
    return tokens.tolist(), reported.gather(1, tokens[:, None]).squeeze(1).tolist()


def _restrict(logits: torch.Tensor, rows: Sequence[Sampling]) -> torch.Tensor:
    """Logits with -inf outside each row's top-k and, of what is left, its nucleus; the likeliest token always stays."""
    vocabulary = logits.shape[1]
    ordered, order = logits.sort(dim=-1, descending=True)
    last = torch.tensor([(min(row.top_k, vocabulary) or vocabulary) - 1 for row in rows])
    ordered = ordered.masked_fill(ordered < ordered.gather(1, last[:, None]), -math.inf)
    probs = ordered.double().softmax(-1)
    before = probs.cumsum(-1) - probs
    nucleus = torch.tensor([row.top_p if row.top_p < 1.0 else math.inf for row in rows], dtype=torch.double)
    outside = before >= nucleus[:, None]
    outside[:, 0] = False
    return torch.empty_like(logits).scatter_(1, order, ordered.masked_fill(outside, -math.inf))


def _invert(log_probs: torch.Tensor, uniforms: Sequence[float]) -> torch.Tensor:
    """The first token of each row whose cumulative probability exceeds the row's number; never one of probability 0."""
    cumulative = log_probs.double().exp_().cumsum_(-1)
    total = cumulative[:, -1:]
    at = torch.tensor(uniforms, dtype=torch.double)[:, None] * total
    at = torch.minimum(at, total.nextafter(torch.zeros_like(total)))  # rounding must not carry it to the very end
    found = torch.searchsorted(cumulative, at, right=True).squeeze(1)
    return found.clamp_(0, log_probs.shape[1] - 1)
