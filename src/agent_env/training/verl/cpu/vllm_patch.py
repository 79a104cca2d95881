"""Lets vLLM take new weights on the CPU, as it does on a GPU.

On the CPU, vLLM packs the weight of each linear layer for its matrix kernel and then empties ``layer.weight``. verl
loads the actor's weights into the layers after every step and has vLLM pack them again
(``process_weights_after_loading``), so the weight has to stay. The packing function has an argument for that,
``remove_weight``; linear layers pass True. Here it is always False.

vLLM calls `register` through the entry-point group ``vllm.general_plugins`` in each of its processes. It does nothing
unless ``VERL_PLATFORM=cpu`` asks for the CPU. Written against vLLM 0.28:
``vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm(layer, remove_weight)``, which its callers import when
they call it.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

TARGET = "vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm"


def register() -> None:
    """Keep the weights of packed layers; a second call changes nothing.

    Raises:
        RuntimeError: this vLLM has no such function, or one with other arguments. Without the patch the first weight
            sync of a run would fail inside vLLM while the trainer waits for it.
    """
    if os.environ.get("VERL_PLATFORM", "").strip().lower() != "cpu":
        return
    from vllm.model_executor.layers import utils

    dispatch = getattr(utils, "dispatch_cpu_unquantized_gemm", None)
    if dispatch is None or list(inspect.signature(dispatch).parameters) != ["layer", "remove_weight"]:
        raise RuntimeError(
            f"this vLLM has no {TARGET}(layer, remove_weight), which training on the CPU has to wrap: install the "
            "version that docs/vllm.md names"
        )
    if hasattr(dispatch, "__wrapped__"):
        return

    @functools.wraps(dispatch)
    def keep_weight(layer: Any, remove_weight: bool) -> None:
        dispatch(layer, remove_weight=False)

    utils.dispatch_cpu_unquantized_gemm = keep_weight
