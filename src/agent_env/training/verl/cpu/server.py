"""The rollout server: a `Generator` in a Ray actor, with the methods verl's clients and replicas call.

Options of its own stand in ``actor_rollout_ref.rollout.engine_kwargs.hf_cpu``:

* ``request_timeout`` (1800): seconds until a request without a complete answer fails.
* ``threads`` (null): torch's threads; null leaves them as Ray and ``OMP_NUM_THREADS`` set them.

From verl's own rollout options it takes ``dtype``, ``seed``, ``max_num_seqs`` (requests at once), ``max_model_len`` (or
prompt and response length together), ``max_num_batched_tokens`` (prompt tokens in one forward), ``logprobs_mode``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.utils.logging import disable_progress_bar
from verl.utils import normalize_token_ids
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from agent_env.errors import InputError, Problem
from agent_env.training.verl.cpu.generator import Generated, Generator
from agent_env.training.verl.cpu.looking import pictures_of
from agent_env.training.verl.cpu.slots import register_attention

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """``engine_kwargs.hf_cpu``; see the module."""

    request_timeout: float = 1800.0
    threads: int | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> ServerOptions:
        """Raises:
        InputError: an unknown option.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(options) - known):
            where = "actor_rollout_ref.rollout.engine_kwargs.hf_cpu"
            raise InputError([Problem(where, f"has no option {name!r}", f"use {sorted(known)}") for name in unknown])
        return cls(**options)


class RolloutServer:
    """One replica's server. verl constructs it inside a Ray actor.

    Args:
        config: verl's rollout configuration. model_config: verl's model configuration.
        replica_rank: which replica this is; it is part of the seed, so that replicas sample differently.
    """

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        rollout: RolloutConfig = omega_conf_to_dataclass(config)
        model: HFModelConfig = omega_conf_to_dataclass(model_config)
        options = ServerOptions.read(rollout.engine_kwargs.get("hf_cpu") or {})
        if options.threads:
            torch.set_num_threads(options.threads)
        disable_progress_bar()  # of loading: it takes no time worth one
        self._rollout = rollout
        self._budget = rollout.prompt_length + rollout.response_length
        self._processor = model.processor
        seeing = type(model.hf_config) in AutoModelForImageTextToText._model_mapping
        loader = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
        self._generator = Generator(
            loader.from_pretrained(
                model.local_path,
                dtype=PrecisionType.to_dtype(rollout.dtype),
                attn_implementation=register_attention(),
                trust_remote_code=model.trust_remote_code,
            ),
            _end_tokens(model),
            max_rows=rollout.max_num_seqs,
            max_length=rollout.max_model_len or self._budget,
            max_prefill_tokens=rollout.max_num_batched_tokens,
            seed=rollout.seed + replica_rank,
            timeout=options.request_timeout,
            mode=rollout.logprobs_mode or "processed_logprobs",
        )

    async def ready(self) -> bool:
        """Answered when the model is loaded."""
        return True

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: list[Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
        **media: Any,
    ) -> TokenOutput:
        """Draw a response, as verl's clients ask for it.

        Without a limit in the request, the response may have as many tokens as fit verl's prompt and response lengths,
        as with vLLM.

        Raises:
            InputError: the prompt or a parameter cannot be used; there are pictures that the model cannot be shown, or
                video or audio.
        """
        if given := sorted(name for name, value in media.items() if value):
            raise InputError(f"the CPU rollout reads text and looks at pictures, and knows no {', '.join(given)}")
        prompt = normalize_token_ids(prompt_ids)
        pictures = None
        if image_data:
            if self._processor is None:
                raise InputError("there are pictures (image_data), and this model has no processor for any")
            pictures = await asyncio.to_thread(pictures_of, self._processor, prompt, image_data, mm_processor_kwargs)
        room = min(self._rollout.response_length, self._budget - len(prompt))
        defaults = {"ignore_eos": self._rollout.ignore_eos, "max_tokens": room}
        if "max_new_tokens" in sampling_params:
            del defaults["max_tokens"]
        answer = await self._generator.generate(prompt, {**defaults, **sampling_params}, pictures=pictures)
        return _as_verl(answer, logprobs=bool(sampling_params.get("logprobs", True)))

    def close(self) -> None:
        """Stop generating; for a server that is no actor, whose process would end with it."""
        self._generator.close()

    async def load_weights(self, tensors: dict[str, torch.Tensor], last: bool) -> None:
        """Overwrite parameters; with `last`, all have come."""
        await self._generator.load_weights(tensors.items(), last=last)

    async def load_adapter(self, tensors: dict[str, torch.Tensor], peft_config: dict[str, Any]) -> None:
        """Put a LoRA adapter over the base weights."""
        await self._generator.load_adapter(tensors.items(), peft_config)

    async def set_global_steps(self, global_steps: int | None) -> None:
        """Name the version of the weights."""
        await self._generator.set_version(global_steps)

    async def abort_all_requests(self, reject_request: bool = False) -> dict[str, Any]:
        """Answer every request with what it has, and let none run until `resume_generation`."""
        count = await self._generator.abort_all(reject=reject_request)
        logger.info("aborted %d requests", count)
        return {"aborted_count": count, "request_ids": []}

    async def resume_generation(self) -> None:
        await self._generator.resume()

    async def sleep(self) -> None:
        """Give the cache's memory back; weights stay, they are the CPU's own."""
        await self._generator.forget(release=True)

    async def wake_up(self, tags: list[str] | None = None) -> None:
        pass

    async def clear_kv_cache(self) -> None:
        await self._generator.forget()

    async def release_kv_cache(self) -> None:
        await self._generator.forget(release=True)

    async def resume_kv_cache(self) -> None:
        pass

    async def start_profile(self, **_: Any) -> None:
        pass

    async def stop_profile(self) -> None:
        pass


def _end_tokens(model: HFModelConfig) -> set[int]:
    named = getattr(model.generation_config, "eos_token_id", None)
    ends = set(named if isinstance(named, list) else [named]) | {model.tokenizer.eos_token_id}
    return {token for token in ends if token is not None}


def _as_verl(answer: Generated, *, logprobs: bool) -> TokenOutput:
    return TokenOutput(
        token_ids=answer.token_ids,
        log_probs=answer.log_probs if logprobs else None,
        # verl's own servers call an answer that reached its limit completed, too
        stop_reason="aborted" if answer.stop_reason == "aborted" else "completed",
        extra_fields={"global_steps": answer.version, "num_cached_tokens": answer.cached_tokens},
    )
