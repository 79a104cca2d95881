"""The patch that lets vLLM take new weights on the CPU, on vLLM itself; each case in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PACK_A_LAYER = """
import torch
from vllm.plugins import load_general_plugins
load_general_plugins()
load_general_plugins()  # vLLM may load plugins more than once
from vllm.model_executor.layers import utils
packed = torch.nn.Module()
packed.weight = torch.nn.Parameter(torch.eye(64), requires_grad=False)
utils.dispatch_cpu_unquantized_gemm(packed, remove_weight=True)
print("weight", tuple(packed.weight.shape), packed.cpu_linear(torch.ones(1, 64), packed.weight, None).sum().item())
"""

WITHOUT_THE_TARGET = """
from vllm.model_executor.layers import utils
del utils.dispatch_cpu_unquantized_gemm
from agent_env.training.verl.cpu.vllm_patch import register
try:
    register()
except RuntimeError as error:
    print("refused", error)
"""


def run(program: str, platform: str | None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VERL_PLATFORM"}
    if platform is not None:
        environment["VERL_PLATFORM"] = platform
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.timeout(240)
def test_a_packed_layer_keeps_its_weight_and_computes_the_same() -> None:
    assert "weight (64, 64) 64.0" in run(PACK_A_LAYER, "cpu")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("platform", [None, "cuda"])
def test_it_does_nothing_unless_the_cpu_is_asked_for(platform: str | None) -> None:
    assert "weight (64, 64)" not in run(PACK_A_LAYER, platform)


@pytest.mark.timeout(240)
def test_another_vllm_is_refused_with_what_to_do() -> None:
    assert "docs/vllm.md" in run(WITHOUT_THE_TARGET, "cpu")
    assert "refused" not in run(WITHOUT_THE_TARGET, None)
