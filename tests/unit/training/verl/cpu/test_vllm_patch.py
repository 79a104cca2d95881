"""Where nobody asks for the CPU, vLLM isn't touched. What the patch does to vLLM is tested in tests/vllm."""

import sys

import pytest

from agent_env.training.verl.cpu import vllm_patch


@pytest.mark.parametrize("platform", [None, "cuda", ""])
def test_without_the_cpu_platform_vllm_is_not_even_imported(monkeypatch, platform):
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    if platform is not None:
        monkeypatch.setenv("VERL_PLATFORM", platform)
    monkeypatch.setitem(sys.modules, "vllm", None)  # an import of it would raise
    vllm_patch.register()


def test_it_is_registered_with_vllm():
    from importlib.metadata import entry_points

    (entry,) = (e for e in entry_points(group="vllm.general_plugins") if e.name == "agent_env")
    assert entry.load() is vllm_patch.register
