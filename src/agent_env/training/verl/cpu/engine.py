"""verl's FSDP2 engines on a CPU: the stock ones, but for what assumes an accelerator.

* A model that is only run forwards (the reference policy) is offloaded to pinned host memory. Here it lies in host
  memory already, and pinning needs an accelerator: no offloading.
* A critic is loaded with flash attention whatever its configuration says: here, with what it says.
* Log-probabilities: verl takes them token by token in Python, to hold few logits at a time; on a CPU that is a third of
  an update's time. Here all of a micro-batch's are taken at once.
* Prompts: those that are several rows' are computed once for all of them (`shared_prompts`), where every layer of the
  model attends to everything and rows are of text.
* The threads: while a trainer worker computes, nothing else of the run does, so a machine's workers share its cores
  whatever ``OMP_NUM_THREADS`` leaves to the other processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import verl.utils.model
import verl.workers.engine.fsdp.transformer_impl as stock
from torch.distributed.fsdp import CPUOffloadPolicy
from transformers import AutoModelForTokenClassification
from verl.utils import tensordict_utils as tu
from verl.utils.torch_functional import entropy_from_logits
from verl.workers.engine.base import EngineRegistry

from agent_env.training.verl.cpu.shared_prompts import packed

_NOT_SHARED = ("use_remove_padding", "use_fused_kernels", "calculate_sum_pi_squared", "distillation_use_topk")
"""What a micro-batch may ask for that is left to verl."""


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def _take_cores() -> None:
    workers = int(os.environ.get("RAY_LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // workers))


def _unpinned(pin_memory: bool = True) -> CPUOffloadPolicy:
    return CPUOffloadPolicy(pin_memory=False)


def log_probabilities(logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = False) -> torch.Tensor:
    """Of each label under its logits, in nats: ``(tokens,)``, of logits of shape ``(tokens, vocabulary)``.

    Arguments as verl passes them to its own. Nothing is done in place.
    """
    return -torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def _load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """A model with a value head; arguments as verl passes them."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=model_config._attn_implementation,
        trust_remote_code=trust_remote_code,
    )


class _SharedPrompts(stock.FSDPEngineWithLMHead):
    """What the engines have in common; stands before one of verl's in the order of bases."""

    def initialize(self) -> None:
        _take_cores()
        super().initialize()

    def prepare_model_inputs(self, micro_batch: Any) -> Any:
        inputs, told = super().prepare_model_inputs(micro_batch)
        if self._may_share(micro_batch, inputs):
            rows = [row.numpy() for row in micro_batch["input_ids"].unbind()]
            prompts = micro_batch["prompts"].offsets().diff().tolist()
            if (lines := packed(rows, prompts)) is not None:
                inputs |= {"input_ids": lines.ids, "attention_mask": lines.mask, "position_ids": lines.positions}
                told["places"] = lines.places
        return inputs, told

    def _may_share(self, micro_batch: Any, inputs: dict[str, Any]) -> bool:
        config = self.module.config
        layers = set(getattr(config, "layer_types", None) or ())  # old kinds of models say nothing
        alike = config._attn_implementation == "sdpa" and layers == {"full_attention"}
        # Of text alone: a model that sees has positions of several kinds.
        text = set(inputs) == {"input_ids", "attention_mask", "position_ids"} and inputs["position_ids"].dim() == 2
        asked = any(tu.get_non_tensor_data(micro_batch, name, False) for name in _NOT_SHARED)
        one_temperature = not isinstance(micro_batch["temperature"], torch.Tensor)
        return alike and text and one_temperature and not asked and "prompts" in micro_batch

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> Any:
        if "places" not in output_args:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        found = self._of_lines(output.logits.flatten(0, 1), output_args, micro_batch)
        rows = micro_batch["input_ids"].offsets()
        return {name: torch.nested.nested_tensor_from_jagged(value, rows) for name, value in found.items()}

    def _of_lines(self, logits: torch.Tensor, told: dict[str, Any], micro_batch: Any) -> dict[str, torch.Tensor]:
        """What verl wants to know of every token of the rows, of the logits of `packed` ones."""
        raise NotImplementedError


class LanguageModelEngine(_SharedPrompts):
    """Actor and reference policy."""

    def _build_fsdp_module(self, module: Any) -> Any:
        with _replaced(stock, "CPUOffloadPolicy", _unpinned):
            return super()._build_fsdp_module(module)

    def prepare_model_outputs(self, *args: Any, **kwargs: Any) -> Any:
        with _replaced(stock, "logprobs_from_logits", log_probabilities):
            return super().prepare_model_outputs(*args, **kwargs)

    def _of_lines(self, logits: torch.Tensor, told: dict[str, Any], micro_batch: Any) -> dict[str, torch.Tensor]:
        places = told["places"]
        if not told["temperature_is_one"]:
            logits = logits / told["temperature"][0]
        # A prompt's last token has as many successors as there are replies: what is summed over the vocabulary is the
        # same for all of them.
        found = {"log_probs": logits[places, told["input_ids_rmpad_rolled"]] - logits.logsumexp(-1)[places]}
        if tu.get_non_tensor_data(micro_batch, "calculate_entropy", False):
            found["entropy"] = entropy_from_logits(logits)[places]
        return found


class ValueModelEngine(_SharedPrompts, stock.FSDPEngineWithValueHead):
    """Critic."""

    def _build_module(self) -> Any:
        with _replaced(verl.utils.model, "load_valuehead_model", _load_critic):
            return super()._build_module()

    def _of_lines(self, logits: torch.Tensor, told: dict[str, Any], micro_batch: Any) -> dict[str, torch.Tensor]:
        return {"values": logits.squeeze(-1)[told["places"]]}


def register_engines() -> None:
    """Make verl build these engines for device ``cpu`` and strategy ``fsdp2``."""
    EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")(LanguageModelEngine)
    EngineRegistry.register(model_type="value_model", backend=["fsdp2"], device="cpu")(ValueModelEngine)
