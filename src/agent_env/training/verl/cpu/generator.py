"""Token-in, token-out generation on a transformers model, with continuous batching, for any number of callers at once.

One thread owns the model and the running batch; everything else talks to it through a queue, so that a caller may live
in any thread or event loop. The verl rollout server is one caller; an evaluation in this process is another:

    generator = Generator(model, eos_ids=[tokenizer.eos_token_id])
    answer = await generator.generate(prompt_ids, {"temperature": 1.0, "max_tokens": 64})
    answer.token_ids, answer.log_probs, answer.stop_reason
    generator.close()

What a request draws depends on the generator's seed, the version of the weights, its prompt and how many requests had
that prompt before it at that version; if it brings a seed, on that and its prompt alone. The order and company in which
requests arrive show in nothing but the last bits of floating point, which change a token about once in a million; with
``max_rows=1`` not even in those.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch

from agent_env.errors import AgentEnvError, InputError
from agent_env.training.verl.cpu.batch import Batch, Row, StopReason
from agent_env.training.verl.cpu.looking import SEEING, Pictures
from agent_env.training.verl.cpu.sampling import LogprobsMode, Sampling, parse_sampling
from agent_env.training.verl.cpu.weights import Weights

_REMEMBERED_PROMPTS = 65_536


class GeneratorClosed(AgentEnvError):
    """The generator was closed, or its thread has died; holds the cause as ``__cause__``."""


class RequestTimedOut(AgentEnvError):
    """A request had no complete answer within its deadline; its row is free again."""


class GeneratorFull(AgentEnvError):
    """More requests wait than the generator holds; send fewer at once."""


@dataclass(frozen=True)
class Generated:
    """What one request drew.

    Attributes:
        token_ids: the response, its stop token included.
        log_probs: natural logarithms, one for each token.
        stop_reason: ``completed`` (a stop token), ``length`` or ``aborted`` (with what was drawn until then).
        cached_tokens: prompt tokens whose keys and values were reused.
        version: the weights that drew the last token.
    """

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: StopReason
    cached_tokens: int = 0
    version: int | None = None


@dataclass(eq=False)
class _Request:
    row: Row
    answer: Future[Generated]
    deadline: float


class Generator:
    """Serves a causal language model on the CPU; thread-safe.

    Args:
        model: a transformers model with full attention in all layers; put into eval mode. Load it with
            ``attn_implementation=register_attention()`` (`slots`) for about a third more speed.
        eos_ids: token ids that end a response unless a request ignores them.
        max_rows: requests that decode at once; the others wait in order of arrival.
        max_length: tokens of prompt and response together; at most what the model was made for, the default.
        max_tokens: of a response whose request names no limit; default: up to `max_length`.
        seed: of all sampling, but for requests that bring their own.
        timeout: seconds until a request that has no complete answer fails.
        mode: the log-probabilities to report, as `sampling` describes.
        max_waiting: requests that may wait for a row.

    Raises:
        ValueError: the model has layers the cache doesn't serve.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        eos_ids: Collection[int],
        *,
        max_rows: int = 256,
        max_length: int | None = None,
        max_tokens: int | None = None,
        max_prefill_tokens: int = 8192,
        seed: int = 0,
        timeout: float = 1800.0,
        mode: LogprobsMode = "processed_logprobs",
        max_waiting: int = 16_384,
    ) -> None:
        config = model.config.get_text_config()
        self._family = model.config.model_type
        limits = [limit for limit in (max_length, getattr(config, "max_position_embeddings", None)) if limit]
        self.max_length = min(limits) if limits else 1 << 30
        self.version: int | None = None
        self.drawn = 0  # tokens since the start
        self._eos_ids, self._vocabulary = frozenset(eos_ids), config.vocab_size
        self._max_tokens, self._seed, self._timeout, self._max_waiting = max_tokens, seed, timeout, max_waiting
        self._batch = Batch(model.eval(), max_rows=max_rows, max_prefill_tokens=max_prefill_tokens, mode=mode)
        self._weights = Weights(model)
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._paused = self._rejecting = False
        self._times_seen: dict[bytes, int] = {}
        self._inbox: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._bell = threading.Condition()
        self._dead: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)
        self._thread.start()

    # --- for callers, in any thread ---------------------------------------------------------------------------

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        pictures: Pictures | None = None,
    ) -> Generated:
        """Draw a response to a prompt. Cancelling the call frees its row.

        Raises:
            InputError: the prompt is empty, too long or not of this model's token ids; a sampling parameter is bad; it
                has pictures, and the model does not see, or not in a way that is served.
            RequestTimedOut, GeneratorFull, GeneratorClosed: as they say. NotFinite: the model gave NaN for it.
        """
        return await asyncio.wrap_future(self.submit(prompt_ids, sampling, timeout=timeout, pictures=pictures))

    def submit(
        self,
        prompt_ids: Sequence[int],
        sampling: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        pictures: Pictures | None = None,
    ) -> Future[Generated]:
        """`generate` without an event loop: a future with the same answer or error, which may be cancelled.

        Raises:
            InputError: as `generate`, at once.
        """
        prompt = self._checked(prompt_ids)
        if pictures is not None:
            if self._family not in SEEING:
                raise InputError(f"the CPU rollout shows no pictures to a {self._family} model, only to {SEEING}")
            prompt = pictures.keys
        parsed = parse_sampling(
            sampling or {},
            room=self.max_length - len(prompt),
            default_max_tokens=self._max_tokens or self.max_length,
            eos_ids=self._eos_ids,
        )
        if strange := sorted(token for token in parsed.bias if not 0 <= token < self._vocabulary):
            raise InputError(f"logit_bias holds token ids {strange}; the model knows 0 to {self._vocabulary - 1}")
        answer: Future[Generated] = Future()
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._post(lambda: self._enqueue(prompt, pictures, parsed, answer, deadline))
        return answer

    async def abort_all(self, *, reject: bool = False) -> int:
        """Pause: every request, running or waiting, is answered now with what it has, as ``aborted``.

        Requests that come later wait for `resume`; with `reject` they are answered at once, empty and ``aborted``.
        Returns how many were aborted.
        """
        aborted: int = await self._ask(lambda: self._abort_all(reject))
        return aborted

    async def resume(self) -> None:
        """Let waiting and coming requests run again."""
        await self._ask(self._resume)

    async def load_weights(self, tensors: Iterable[tuple[str, torch.Tensor]], *, last: bool = True) -> None:
        """Overwrite parameters by name; `last` checks that every parameter has come since the check before.

        Raises:
            InputError: names or shapes that aren't the model's, or parameters that never came.
        """
        await self._ask(lambda: self._weights.load(tensors, last=last))

    async def load_adapter(self, tensors: Iterable[tuple[str, torch.Tensor]], config: Mapping[str, Any]) -> None:
        """Put a LoRA adapter over the base weights, in place of the one before.

        Args:
            tensors: the adapter's state, as PEFT saves it.
            config: PEFT's ``LoraConfig`` as a dict.

        Raises:
            InputError: the adapter does not fit the model, or uses a variant of LoRA that isn't supported.
        """
        await self._ask(lambda: self._weights.load_adapter(tensors, config))

    async def set_version(self, version: int | None) -> None:
        """Name the weights of now; nothing computed before is reused, and sampling starts afresh."""
        await self._ask(lambda: self._set_version(version))

    async def forget(self, *, release: bool = False) -> None:
        """Drop the keys and values of ended sequences; with `release`, the cache's memory too if nothing runs."""
        await self._ask(lambda: self._forget(release))

    def close(self) -> None:
        """Stop; requests that have no answer fail with `GeneratorClosed`. Safe to call twice."""
        with self._bell:
            if self._dead is None:
                self._dead = GeneratorClosed("the generator was closed")
            self._bell.notify()
        self._thread.join()

    @property
    def running(self) -> int:
        """Requests that decode now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for a row."""
        return len(self._waiting)

    # --- between callers and the thread -----------------------------------------------------------------------

    def _checked(self, prompt_ids: Sequence[int]) -> np.ndarray:
        prompt = np.asarray(prompt_ids)
        if prompt.ndim != 1 or not len(prompt) or not np.issubdtype(prompt.dtype, np.integer):
            raise InputError("a prompt must be a list of at least one token id")
        if len(prompt) >= self.max_length:
            raise InputError(f"a prompt of {len(prompt)} tokens leaves no room in a context of {self.max_length}")
        low, high = int(prompt.min()), int(prompt.max())
        if low < 0 or high >= self._vocabulary:
            strange = low if low < 0 else high
            raise InputError(f"the prompt holds token id {strange}; the model knows 0 to {self._vocabulary - 1}")
        return prompt.astype(np.int64)

    async def _ask(self, task: Callable[[], Any]) -> Any:
        return await asyncio.wrap_future(self._post(task))

    def _post(self, task: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        with self._bell:
            if self._dead is not None:
                raise GeneratorClosed("the generator has stopped") from self._dead
            self._inbox.append((task, done))
            self._bell.notify()
        return done

    # --- in the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while self._wait_for_work():
                    self._run_inbox()
                    self._expire()
                    if not self._paused:
                        self._admit()
                        self._step()
        except BaseException as error:
            with self._bell:
                self._dead = error
        for request in [*self._running, *self._waiting]:
            _fail(request.answer, self._gone())
        for _, done in self._inbox:
            _fail(done, self._gone())

    def _gone(self) -> GeneratorClosed:
        error = GeneratorClosed("the generator has stopped")
        error.__cause__ = self._dead
        return error

    def _wait_for_work(self) -> bool:
        """Sleep until there is something to do or a deadline passes; False when the generator is closed."""
        with self._bell:
            while self._dead is None and not self._inbox and (self._paused or not (self._running or self._waiting)):
                nearest = min((request.deadline for request in self._waiting), default=None)
                if nearest is not None and nearest <= time.monotonic():
                    break
                self._bell.wait(None if nearest is None else max(0.0, nearest - time.monotonic()))
            return self._dead is None

    def _run_inbox(self) -> None:
        while True:
            with self._bell:
                if not self._inbox:
                    return
                task, done = self._inbox.popleft()
            try:
                _answer(done, task())
            except Exception as error:
                _fail(done, error)

    def _enqueue(
        self,
        prompt: np.ndarray,
        pictures: Pictures | None,
        sampling: Sampling,
        answer: Future[Generated],
        deadline: float,
    ) -> None:
        if self._rejecting:
            _answer(answer, Generated([], [], "aborted", version=self.version))
        elif len(self._waiting) >= self._max_waiting:
            _fail(answer, GeneratorFull(f"{len(self._waiting)} requests wait already"))
        else:
            seed = self._seed_of(prompt) if sampling.seed is None else _mixed(repr(sampling.seed).encode(), prompt)
            row = Row(prompt, sampling, Random(seed), pictures=pictures)
            self._waiting.append(_Request(row, answer, deadline))

    def _seed_of(self, prompt: np.ndarray) -> bytes:
        key = _mixed(repr((self._seed, self.version)).encode(), prompt)
        times = self._times_seen.pop(key, 0)
        self._times_seen[key] = times + 1
        if len(self._times_seen) > _REMEMBERED_PROMPTS:
            del self._times_seen[next(iter(self._times_seen))]
        return hashlib.blake2b(key + times.to_bytes(8, "little"), digest_size=8).digest()

    def _admit(self) -> None:
        room = self._batch.max_rows - len(self._running)
        new: list[_Request] = []
        while self._waiting and len(new) < room:
            request = self._waiting.popleft()
            if not request.answer.cancelled():
                new.append(request)
        if not new:
            return
        self._running += new
        for row, error in self._batch.admit([request.row for request in new]):
            self._settle(row, error)

    def _step(self) -> None:
        self.drawn += len(self._running)
        ended, failed = self._batch.step()
        for row in ended:
            self._settle(row, row.stop_reason or "length")
        for row, error in failed:
            self._settle(row, error)

    def _settle(self, row: Row, outcome: StopReason | Exception) -> None:
        """Answer the request of a row that has left the batch."""
        request = next(request for request in self._running if request.row is row)
        self._running.remove(request)
        if isinstance(outcome, Exception):
            _fail(request.answer, outcome)
        else:
            _answer(request.answer, Generated(row.tokens, row.log_probs, outcome, row.reused, self.version))

    def _expire(self) -> None:
        now = time.monotonic()
        for request in [r for r in self._running if r.answer.cancelled() or r.deadline <= now]:
            self._batch.drop(request.row)
            self._settle(request.row, RequestTimedOut(f"no complete answer in time ({len(request.row.tokens)} tokens)"))
        if any(r.answer.cancelled() or r.deadline <= now for r in self._waiting):
            for request in self._waiting:
                if request.deadline <= now:
                    _fail(request.answer, RequestTimedOut("no answer in time: the request was still waiting for a row"))
            self._waiting = deque(r for r in self._waiting if not r.answer.done())

    def _abort_all(self, reject: bool) -> int:
        self._paused, self._rejecting = True, reject
        stopped = [*self._running, *self._waiting]
        for request in self._running:
            self._batch.drop(request.row)
        for request in stopped:
            row = request.row
            _answer(request.answer, Generated(row.tokens, row.log_probs, "aborted", row.reused, self.version))
        self._running.clear()
        self._waiting.clear()
        return len(stopped)

    def _resume(self) -> None:
        self._paused = self._rejecting = False

    def _set_version(self, version: int | None) -> None:
        self.version = version
        self._times_seen.clear()
        self._batch.forget()

    def _forget(self, release: bool) -> None:
        self._batch.forget()
        if release and not self._running:
            self._batch.release()


def _mixed(seed: bytes, prompt: np.ndarray) -> bytes:
    """A seed of a seed and a prompt.

    An aborted answer's rest is asked for with the same seed, and the answer's beginning behind the prompt: so it is not
    drawn by the beginning's numbers again.
    """
    return hashlib.blake2b(seed + prompt.tobytes(), digest_size=16).digest()


def _answer(future: Future[Any], value: Any) -> None:
    with suppress(InvalidStateError):  # cancelled this instant: nobody waits
        future.set_result(value)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)
