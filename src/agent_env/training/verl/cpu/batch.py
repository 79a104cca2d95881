"""The running batch: sequences that join, take one token each a step, and leave, at any time.

Slots ``0 .. n-1`` of the cache hold the n running sequences; behind them lie sequences that have ended, kept because
the next prompt often continues one of them (the next turn of a conversation) or repeats its beginning (the rollouts of
one group, a system prompt). A newcomer takes over or copies the longest beginning it shares with any slot, computes the
rest of its prompt but for the last token, and then decodes with everyone: its last prompt token is its first decoding
step. So identical prompts are computed once, and no prompt needs logits of its own.

Everything here runs in one thread and knows nothing of asyncio; `generator` owns that thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import numpy as np
import torch

from agent_env.training.verl.cpu.looking import Pictures
from agent_env.training.verl.cpu.sampling import LogprobsMode, Sampling, draw
from agent_env.training.verl.cpu.slots import SlotCache

StopReason = Literal["completed", "length", "aborted"]


@dataclass(eq=False)
class Row:
    """A sequence on its way: its prompt, how to sample, what it has drawn so far.

    Attributes:
        prompt: token ids, shape ``(prompt_length,)``; with pictures, their `Pictures.keys`.
        random: the sequence's own source of uniform numbers; one is used for each token drawn.
        reused: prompt tokens whose keys and values were found in the cache.
        owner: whatever the caller hangs on it.
        pictures: in the prompt, if any.
    """

    prompt: np.ndarray
    sampling: Sampling
    random: Random
    owner: Any = None
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    reused: int = 0
    pictures: Pictures | None = None

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the sequence has ended, or None while it runs."""
        if not self.tokens:
            return None
        if self.tokens[-1] in self.sampling.stop_ids:
            return "completed"
        return "length" if len(self.tokens) >= self.sampling.max_tokens else None


class NotFinite(ArithmeticError):
    """The model gave NaN, or nothing to draw from, for one sequence."""


class Batch:
    """Sequences decoding together on one transformers model.

    Args:
        model: a decoder-only causal language model with full attention, in eval mode, on the CPU.
        max_rows: sequences that run at once. With 1 no ended sequence is reused: what is computed of a prompt in
            one piece and in two differs in the last bits, and a sequence that runs alone shall depend on nothing else.
        max_prefill_tokens: prompt tokens in one forward; longer prompts are computed in pieces.
        kept_bytes: memory that ended sequences may take; 0 keeps none but those that fit into running rows' memory.
        mode: the log-probabilities to report.

    Raises:
        ValueError: the model has layers whose cache is no row of keys and values (sliding windows, linear attention).
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        max_rows: int = 256,
        max_prefill_tokens: int = 8192,
        kept_bytes: int = 512 << 20,
        mode: LogprobsMode = "processed_logprobs",
    ) -> None:
        config = model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ValueError(f"the CPU rollout serves models with full attention only, not {', '.join(sorted(kinds))}")
        self.model = model
        self.rows: list[Row] = []
        self.max_rows, self._prefill_tokens, self._kept_bytes = max_rows, max(1, max_prefill_tokens), kept_bytes
        self._mode: LogprobsMode = mode
        self._dtype = next(model.parameters()).dtype
        self._cache = SlotCache(config.num_hidden_layers)
        self._tokens = np.zeros((0, 0), dtype=np.int64)  # what each slot's keys and values were computed from
        self._length = np.zeros(0, dtype=np.int64)  # how much of it is valid
        self._fresh = np.zeros(0, dtype=bool)  # whether by the weights of now
        self._ended = np.zeros(0, dtype=np.int64)  # a clock value: the slot whose sequence ended longest ago goes first
        self._clock = 0

    # --- sequences come and go --------------------------------------------------------------------------------

    def admit(self, rows: Iterable[Row]) -> list[tuple[Row, Exception]]:
        """Let sequences join (the caller sees to `max_rows`); returns those whose prompt failed to compute, and why.

        One wave holds no two sequences of which one could reuse more of the other's prompt than of what is there:
        the second waits for the next wave, and finds the first's keys and values.
        """
        failed: list[tuple[Row, Exception]] = []
        waiting = list(rows)
        while waiting:
            wave: list[Row] = []
            later: list[Row] = []
            for row in waiting:
                base, shared = self._longest_shared(row.prompt)
                if any(_shared(row.prompt, other.prompt) > shared for other in wave):
                    later.append(row)
                else:
                    self._place(row, base, shared)
                    wave.append(row)
            failed += self._prefill(len(self.rows) - len(wave))
            waiting = later
        return failed

    def step(self) -> tuple[list[Row], list[tuple[Row, Exception]]]:
        """Draw one token for every running sequence; those that ended and those that failed are returned, and out."""
        if not self.rows:
            return [], []
        longest = int(self._length[: len(self.rows)].max())
        self._reserve(len(self.rows), longest + 1)
        for number, row in enumerate(self.rows):
            self._tokens[number, self._length[number]] = row.tokens[-1] if row.tokens else row.prompt[-1]
        errors = self._isolated(0, len(self.rows), self._decode)
        failed = [(self.rows[number], error) for number, error in errors.items()]
        ended = [row for row in self.rows if row.stop_reason and all(row is not lost for lost, _ in failed)]
        leaving = {id(row) for row in ended} | {id(row) for row, _ in failed}
        for number in reversed(range(len(self.rows))):
            if id(self.rows[number]) in leaving:
                self._leave(number, keep=number not in errors)
        return ended, failed

    def drop(self, row: Row) -> None:
        """Take a running sequence out."""
        self._leave(next(number for number, other in enumerate(self.rows) if other is row), keep=True)

    def forget(self) -> None:
        """The weights have changed: no key or value of now is reused by a sequence that comes later."""
        self._fresh[:] = False
        self._length[len(self.rows) :] = 0

    def release(self) -> None:
        """Give the cache's memory back. No sequence may be running."""
        assert not self.rows, "release() while sequences run"
        self._cache.release()
        self._tokens = np.zeros((0, 0), dtype=np.int64)
        self._length, self._ended = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._fresh = np.zeros(0, dtype=bool)

    # --- the two kinds of forward -----------------------------------------------------------------------------

    def _prefill(self, first: int) -> list[tuple[Row, Exception]]:
        """Compute what is missing of the prompts of rows ``first:``, but for their last tokens."""
        errors: dict[int, Exception] = {}
        start = first
        while start < len(self.rows):
            # As many rows as the token budget allows at the length of the longest among them; always one.
            stop, longest = start, 0
            while stop < len(self.rows):
                longest = max(longest, self._missing(stop))
                if stop > start and longest * (stop + 1 - start) > self._prefill_tokens:
                    break
                stop += 1
            errors |= self._isolated(start, stop, self._prefill_rows)
            start = stop
        failed = [(self.rows[number], error) for number, error in errors.items()]
        for number in sorted(errors, reverse=True):
            self._leave(number, keep=False)
        return failed

    def _missing(self, number: int) -> int:
        return len(self.rows[number].prompt) - 1 - int(self._length[number])

    def _prefill_rows(self, first: int, last: int) -> None:
        numbers = np.arange(first, last)
        wanted = np.array([len(row.prompt) - 1 for row in self.rows[first:last]])
        while (wanted > self._length[numbers]).any():
            piece = min(int((wanted - self._length[numbers]).max()), max(1, self._prefill_tokens // (last - first)))
            self._reserve(last, int(self._length[numbers].max()) + piece)
            # Rows that are done, or shorter, compute tokens past their end: those lie behind what counts as theirs.
            positions = self._length[numbers][:, None] + np.arange(piece)
            self._forward(first, self._tokens[numbers[:, None], positions], positions)
            self._length[numbers] = np.maximum(self._length[numbers], np.minimum(wanted, positions[:, -1] + 1))

    def _decode(self, first: int, last: int) -> None:
        positions = self._length[first:last, None]
        logits = self._forward(first, self._tokens[np.arange(first, last)[:, None], positions], positions)
        rows = self.rows[first:last]
        early = {i: row.sampling.stop_ids for i, row in enumerate(rows) if len(row.tokens) < row.sampling.min_tokens}
        tokens, log_probs = draw(
            logits,
            [row.sampling for row in rows],
            [row.random.random() for row in rows],
            forbidden={i: ids for i, ids in early.items() if ids},
            mode=self._mode,
        )
        self._length[first:last] += 1
        for row, token, log_prob in zip(rows, tokens, log_probs, strict=True):
            row.tokens.append(token)
            row.log_probs.append(log_prob)

    def _forward(self, first: int, tokens: np.ndarray, positions: np.ndarray) -> torch.Tensor:
        """Logits behind the last of `tokens`, shape ``(rows, vocabulary)``."""
        where = torch.from_numpy(np.ascontiguousarray(positions))
        mask = self._cache.aim(first, where, self._dtype)
        looking = any(row.pictures for row in self.rows[first : first + len(tokens)])
        seen = self._seen(first, tokens, positions) if looking else {"input_ids": _ids(tokens), "position_ids": where}
        out = self.model(
            **seen,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1]

    def _seen(self, first: int, tokens: np.ndarray, positions: np.ndarray) -> dict[str, torch.Tensor]:
        """What the model is given for rows of which some have pictures: embeddings, and places in three dimensions."""
        embeddings = self.model.get_input_embeddings()(_ids(tokens))
        rope = np.repeat(positions[None], 3, axis=0)
        for number, (row, at) in enumerate(zip(self.rows[first : first + len(tokens)], positions, strict=True)):
            pictures = row.pictures
            if pictures is None:
                continue
            within = at < len(row.prompt)  # what lies behind was drawn, or is computed for nothing
            rope[:, number] = np.where(within, pictures.rope[:, at * within], at + pictures.shift)
            places = np.where(within, pictures.places[at * within], -1)
            stand = places >= 0
            if stand.any():
                features = pictures.look(self.model)[torch.from_numpy(places[stand])]
                embeddings[number, torch.from_numpy(stand)] = features.to(embeddings.dtype)
        return {"inputs_embeds": embeddings, "position_ids": torch.from_numpy(rope)}

    def _isolated(self, first: int, last: int, run: Callable[[int, int], None]) -> dict[int, Exception]:
        """Run on rows ``first:last``; where that raises, halve until the rows to blame stand alone."""
        try:
            run(first, last)
        except Exception as error:
            if last - first == 1:
                return {first: error}
            middle = (first + last) // 2
            return self._isolated(first, middle, run) | self._isolated(middle, last, run)
        lost: dict[int, Exception] = {}
        for number, row in enumerate(self.rows[first:last], first):
            if row.log_probs and not math.isfinite(row.log_probs[-1]):
                lost[number] = NotFinite("the model's logits are not finite numbers, or every token is ruled out")
        return lost

    # --- slots ------------------------------------------------------------------------------------------------

    def _longest_shared(self, prompt: np.ndarray) -> tuple[int, int]:
        """The slot that shares the longest beginning with `prompt`, and how long; its last token is always computed."""
        usable = min(len(prompt) - 1, self._tokens.shape[1])
        if not usable or not self._fresh.any():
            return -1, 0
        differs = self._tokens[:, :usable] != prompt[:usable]
        same = np.where(differs.any(1), differs.argmax(1), usable)
        same = np.minimum(same, self._length) * self._fresh
        best = int(same.argmax())
        return (best, int(same[best])) if same[best] else (-1, 0)

    def _place(self, row: Row, base: int, shared: int) -> None:
        """Give a newcomer the first slot behind the running ones, with `shared` tokens of slot `base` in it."""
        number = len(self.rows)
        self._reserve(number + 1, len(row.prompt))
        if base > number and self._length[base] == shared:
            self._swap(base, number)  # it continues an ended sequence: take it over whole
        elif base != number:
            if self._length[number]:
                self._rescue(number, base)
            if shared:
                self._cache.copy(base, number, shared)
        self._tokens[number, : len(row.prompt)] = row.prompt
        self._length[number], self._fresh[number] = shared, True
        row.reused = shared
        self.rows.append(row)

    def _rescue(self, number: int, base: int) -> None:
        """Move the ended sequence in slot `number` to the slot whose own is missed least, if that isn't itself."""
        if (self._length > 0).all():
            self._reserve_for_ended()
        behind = np.arange(number, len(self._length))
        behind = behind[behind != base]
        empty = behind[self._length[behind] == 0]
        target = int(empty[0]) if len(empty) else int(behind[self._ended[behind].argmin()])
        if target != number:
            self._cache.copy(number, target, int(self._length[number]))
            for array in (self._tokens, self._length, self._fresh, self._ended):
                array[target] = array[number]

    def _leave(self, number: int, *, keep: bool) -> None:
        """Take a running row out; its slot joins the ended ones, as a beginning to reuse if `keep` and still valid."""
        last = len(self.rows) - 1
        self._clock += 1
        self._ended[number] = self._clock
        if not keep or not self._fresh[number] or self.max_rows == 1:
            self._length[number] = 0
        if number != last:
            self._swap(number, last)
            self.rows[number] = self.rows[last]
        self.rows.pop()

    def _swap(self, one: int, other: int) -> None:
        self._cache.swap(one, other, int(max(self._length[one], self._length[other])))
        for array in (self._tokens, self._length, self._fresh, self._ended):
            array[[one, other]] = array[[other, one]]

    def _reserve(self, slots: int, capacity: int) -> None:
        """Have room for `slots` sequences of `capacity` tokens; grows in steps, so that it seldom has to."""
        have_slots, have_capacity = self._tokens.shape
        if slots > have_slots:
            slots = max(slots, min(max(8, 2 * have_slots), self.max_rows))
        if capacity > have_capacity:
            capacity = -(-max(capacity, have_capacity * 5 // 4) // 64) * 64
        self._resize(max(slots, have_slots), max(capacity, have_capacity))

    def _reserve_for_ended(self) -> None:
        """Add slots for ended sequences, up to as many as may run and within their memory."""
        slots, capacity = self._tokens.shape
        each = self._cache.bytes_per_token() * capacity
        within = self._kept_bytes // each if each else 0
        self._resize(max(slots, min(2 * slots, len(self.rows) + within, 2 * self.max_rows)), capacity)

    def _resize(self, slots: int, capacity: int) -> None:
        have_slots, have_capacity = self._tokens.shape
        if (slots, capacity) == (have_slots, have_capacity):
            return
        self._cache.reserve(slots, capacity)
        self._tokens = np.pad(self._tokens, ((0, slots - have_slots), (0, capacity - have_capacity)))
        more = (0, slots - have_slots)
        self._length, self._ended = np.pad(self._length, more), np.pad(self._ended, more)
        self._fresh = np.pad(self._fresh, more)


def _ids(tokens: np.ndarray) -> torch.Tensor:
    """Token ids; any of the model's in the place of a picture's, whose embedding is what is seen."""
    return torch.from_numpy(np.maximum(tokens, 0))


def _shared(one: np.ndarray, other: np.ndarray) -> int:
    """Length of the common beginning one prompt could reuse of the other: the last token of each is not kept."""
    usable = min(len(one), len(other)) - 1
    differs = one[:usable] != other[:usable]
    return int(differs.argmax()) if differs.any() else usable
