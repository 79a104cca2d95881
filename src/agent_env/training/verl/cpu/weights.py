"""Weights that come from the trainer while the model serves: full tensors by name, or a LoRA adapter over them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from agent_env.errors import InputError, Problem

_LORA = re.compile(r"^(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<half>[AB])(?:\.\w+)?\.weight$")


class Weights:
    """Writes into a model's parameters in place; knows which of them have come and what lies under an adapter.

    Tied parameters (an output layer that is the embedding) have one storage and may come under either name, or both.

    Args:
        model: the transformers model being served.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._state = model.state_dict(keep_vars=True)
        self._home = {name: tensor.data_ptr() for name, tensor in self._state.items()}
        self._come: set[int] = set()
        self._base: dict[str, torch.Tensor] = {}  # the base weights under the adapter, by parameter name

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]], *, last: bool) -> None:
        """Copy tensors over the parameters of their names; `last` checks that all have come.

        Raises:
            InputError: with every unknown name and wrong shape (nothing of those is written), or all that never came.
        """
        problems = []
        for sent_name, tensor in tensors:
            name = _plain(sent_name)
            target = self._state.get(name)
            if target is None:
                problems.append(Problem(sent_name, "the model has no such parameter"))
            elif target.shape != tensor.shape:
                sizes = f"has shape {tuple(tensor.shape)}", f"expected {tuple(target.shape)}"
                problems.append(Problem(sent_name, *sizes))
            else:
                target.copy_(tensor)
                self._base.pop(name, None)
                self._come.add(self._home[name])
        if last and not problems:
            problems = [Problem(name, "was never sent") for name, home in self._home.items() if home not in self._come]
        if last:
            self._come.clear()
        if problems:
            raise InputError(problems)

    def load_adapter(self, tensors: Iterable[tuple[str, torch.Tensor]], config: Mapping[str, Any]) -> None:
        """Write ``W + scale * B A`` over each adapted weight, W being the base and not what the last adapter left.

        Args:
            tensors: ``lora_A`` of shape ``(rank, in)`` and ``lora_B`` of shape ``(out, rank)`` of each adapted module,
                under PEFT's names.
            config: PEFT's LoraConfig as a dict: ``r``, ``lora_alpha``, ``use_rslora``.

        Raises:
            InputError: with everything that doesn't fit; nothing is written then.
        """
        problems = [
            Problem(name, f"is {config[name]!r}", "not supported; use plain LoRA, or lora.merge=True")
            for name in ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "target_parameters")
            if config.get(name)
        ]
        halves: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors:
            match = _LORA.match(name)
            if match is None:
                problems.append(Problem(name, "is no lora_A or lora_B weight"))
            else:
                halves.setdefault(f"{match['module']}.weight", {})[match["half"]] = tensor
        for name, pair in halves.items():
            target = self._state.get(name)
            if target is None:
                problems.append(Problem(name, "the model has no such parameter"))
            elif set(pair) != {"A", "B"}:
                problems.append(Problem(name, f"came with lora_{''.join(pair)} alone"))
            elif (*pair["B"].shape, *pair["A"].shape) != (target.shape[0], config["r"], config["r"], target.shape[1]):
                sent = f"lora_B {tuple(pair['B'].shape)} and lora_A {tuple(pair['A'].shape)}"
                problems.append(Problem(name, f"{sent} do not fit rank {config['r']} and shape {tuple(target.shape)}"))
        if problems:
            raise InputError(problems)
        scale = config["lora_alpha"] / (math.sqrt(config["r"]) if config.get("use_rslora") else config["r"])
        for name in self._base.keys() - halves.keys():
            self._state[name].copy_(self._base.pop(name))
        for name, pair in halves.items():
            target = self._state[name]
            base = self._base.setdefault(name, target.detach().clone())
            target.copy_(base.float() + scale * (pair["B"].float() @ pair["A"].float()))


def _plain(name: str) -> str:
    """A parameter's name in the plain model, for one in a PEFT model or in vLLM's model under an adapter."""
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".")
