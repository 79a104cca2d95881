"""The entry point in fresh interpreters: nothing unless asked, everything if asked, a message if it cannot."""

import functools
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SNAPSHOT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import verl
import verl.trainer.ppo.v1
import verl.workers.engine
import verl.workers.rollout.replica
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.plugin.platform import PlatformRegistry
from verl.utils import distributed
from verl.workers.engine import EngineRegistry
from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplicaRegistry
print("SNAPSHOT" + json.dumps({
    "trainers": sorted(TRAINER_REGISTRY),
    "platforms": sorted(PlatformRegistry.registered_names()),
    "engines": sorted(
        f"{kind} {backend} {device}"
        for kind, backends in EngineRegistry._engines.items()
        for backend, devices in backends.items()
        for device in devices
    ),
    "rollouts": sorted(map(str, _ROLLOUT_REGISTRY)) + sorted(RolloutReplicaRegistry._registry),
    "group": distributed.initialize_global_process_group_ray.__module__,
    "finders": len(sys.meta_path),
    "ours": sorted(name for name in sys.modules if name.startswith("agent_env.training.verl.cpu")),
}))
"""


def fresh(code=SNAPSHOT, **environment):
    """What a new interpreter prints, with these variables set and our own unset."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "AGENT_ENV"))}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=110, check=False
    )


@functools.cache
def snapshot(**environment):
    ran = fresh(**environment)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.split("SNAPSHOT")[1])


def test_it_adds_trainers_and_changes_nothing_unless_a_cpu_is_asked_for():
    with_plugin, without = snapshot(), snapshot(VERL_USE_EXTERNAL_PLUGINS="none")
    ours = ["agentenv_colocate_async", "agentenv_separate_async", "agentenv_sync"]
    assert [name for name in with_plugin["trainers"] if name not in without["trainers"]] == ours
    assert {**with_plugin, "trainers": without["trainers"]} == without
    assert with_plugin["ours"] == []


def test_a_cpu_is_a_platform_with_engines_and_a_rollout():
    with_plugin, without = snapshot(VERL_PLATFORM="cpu"), snapshot(VERL_USE_EXTERNAL_PLUGINS="none")

    def more(what):
        return [name for name in with_plugin[what] if name not in without[what]]

    assert more("platforms") == ["cpu"]
    assert more("engines") == ["language_model fsdp2 cpu", "value_model fsdp2 cpu"]
    assert more("rollouts") == ["('hf_cpu', 'async')", "hf_cpu"]
    # Those that wait for Qwen's processors, which are imported by a model that sees.
    waiting = 0 if find_spec("torchvision") else 3
    assert with_plugin["finders"] == without["finders"] + waiting


def test_a_model_that_sees_has_a_processor_without_torchvision(tmp_path):
    code = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, TESTS)
from pathlib import Path
from support.tiny_vlm import write_vlm
folder = write_vlm(Path(FOLDER), ["a b"] * 5)
from verl.utils.tokenizer import hf_processor
processor = hf_processor(folder)
print(type(processor).__name__, processor.image_processor.patch_size, hasattr(processor, "get_rope_index"))
"""
    code = code.replace("TESTS", repr(str(Path(__file__).parents[1]))).replace("FOLDER", repr(str(tmp_path)))
    ran = fresh(code, VERL_PLATFORM="cpu")
    assert ran.stdout.splitlines()[-1:] == ["Qwen2_5_VLProcessor 8 True"], ran.stderr


HALF_INSTALLED = """
import sys
class Gone:
    def find_spec(self, name, path, target=None):
        if name == "agent_env.training.verl.cpu.MODULE":
            raise ImportError("gone from the installation")
sys.meta_path.insert(0, Gone())
import warnings
warnings.simplefilter("ignore")
import verl
import verl.workers.rollout.replica
print("went on")
"""


@pytest.mark.parametrize("module", ["platform", "rollout"])
def test_a_plugin_that_cannot_load_ends_the_process_with_a_message(module):
    ran = fresh(HALF_INSTALLED.replace("MODULE", module), VERL_PLATFORM="cpu")
    assert ran.returncode == 1
    assert "went on" not in ran.stdout
    assert "VERL_PLATFORM=cpu, but verl's CPU backend failed to load: ImportError('gone from" in ran.stderr
