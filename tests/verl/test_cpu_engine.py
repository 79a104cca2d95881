"""verl's engines on this CPU: actor, reference policy, critic, and the weights an actor sends, with and without LoRA.

One interpreter of its own does it all: a process group of one, and verl's plugin on.
"""

import json
import os
import subprocess
import sys

import pytest

from support.tiny_folder import tiny_folder

SCRIPT = """
import inspect, json, os, socket, sys, warnings
warnings.simplefilter("ignore")
import torch
from transformers import AutoModelForCausalLM
import verl.workers.engine
from verl.utils.distributed import initialize_global_process_group_ray
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.utils import tensordict_utils as tu
from agent_env.training.verl.cpu import engine as ours
from agent_env.training.verl.cpu.engine import log_probabilities
from agent_env.training.verl.cpu.weights import Weights

def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]

FOLDER = sys.argv[1]
IDS = torch.arange(5, 25)[None]
FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
initialize_global_process_group_ray()

def engine(kind="language_model", forward_only=False, **model):
    settings = {"use_remove_padding": False, "enable_gradient_checkpointing": False, **model}
    settings["override_config"] = {"attn_implementation": "sdpa"}
    made = EngineRegistry.new(
        model_type=kind, backend="fsdp2",
        model_config=HFModelConfig(path=FOLDER, model_type=kind, **settings),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2", use_torch_compile=False, mixed_precision=FP32, model_dtype="fp32",
            forward_only=forward_only,
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3), checkpoint_config=CheckpointConfig(),
    )
    made.initialize()
    return made

def logits(model):
    with torch.no_grad():
        out = model(IDS).logits
    return out.full_tensor() if hasattr(out, "full_tensor") else out

def load(weights, tensors):
    with torch.no_grad():
        weights.load(tensors, last=True)

def load_adapter(weights, tensors, peft):
    with torch.no_grad():
        weights.load_adapter(tensors, peft)

def served():
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    return model, Weights(model)

def apart(one, other):
    return (logits(one) - logits(other)).abs().max().item()

def step(made):
    # an update that moves what can be trained
    made.module.train()
    made.module(IDS).logits.square().mean().backward()
    made.optimizer_step()
    made.optimizer_zero_grad()
    made.module.eval()

def rows(temperature):
    # 24 rows of two prompts, of 40 and 31 tokens; replies of 3 to 8
    prompts = [torch.arange(5, 45 - 9 * (number % 2)) for number in range(24)]
    replies = [torch.arange(60 + number, 63 + number + number % 6) for number in range(24)]
    whole = [torch.cat(pair) for pair in zip(prompts, replies)]
    told = {"input_ids": whole, "prompts": prompts, "position_ids": [torch.arange(len(row)) for row in whole]}
    nested = {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in told.items()}
    asked = {"use_remove_padding": False, "temperature": temperature, "calculate_entropy": True}
    return tu.get_tensordict(nested, asked)

def by_rows(made, temperature):
    # what is told of every token of `rows` but the last of each, and the widths of the model's input
    widths = []
    made.module.eval()
    def note(module, _, inputs):
        widths.append(list(inputs["input_ids"].shape))
    with made.module.register_forward_pre_hook(note, with_kwargs=True):
        with torch.no_grad():
            told = made.forward_step(rows(temperature), None, forward_only=True)[1]["model_output"]
    values = [row[:-1] for value in told.values() for row in value.unbind()]
    return torch.cat(values), widths

def shared(made, temperature=1.0):
    once, lines = by_rows(made, temperature)
    with ours._replaced(ours, "packed", lambda *rows: None):
        alone, padded = by_rows(made, temperature)
    return [(once - alone).abs().max().item(), lines, padded]

found = {"backend": torch.distributed.get_backend(), "cores": torch.get_num_threads()}
actor = engine()
found["threads"] = torch.get_num_threads()
model, weights = served()
found["before"] = apart(actor.module, model)
step(actor)
found["moved"] = apart(actor.module, model)
found["shared"] = {"actor": shared(actor), "warmer": shared(actor, 1.7)}
tensors, peft = actor.get_per_tensor_param()
load(weights, tensors)
found["synced"] = apart(actor.module, model)

adapted = engine(lora_rank=4, lora_alpha=8, target_modules="all-linear")
for _ in range(3):  # B begins at zero: the first updates move A not at all
    step(adapted)
model, weights = served()
found["shared"]["lora"] = shared(adapted)
found["lora moved"] = apart(adapted.module, model)
base, peft = adapted.get_per_tensor_param(base_sync_done=False)
load(weights, base)
tensors, peft = adapted.get_per_tensor_param(base_sync_done=True)
load_adapter(weights, tensors, peft)
found["lora synced"] = apart(adapted.module, model)
step(adapted)
tensors, peft = adapted.get_per_tensor_param(base_sync_done=True)
load_adapter(weights, tensors, peft)
found["lora synced again"] = apart(adapted.module, model)

merged = engine(lora_rank=4, lora_alpha=8, target_modules="all-linear", lora={"merge": True})
for _ in range(3):
    step(merged)
model, weights = served()
tensors, peft = merged.get_per_tensor_param(base_sync_done=True)
load(weights, tensors)
found["merged"] = [peft, apart(merged.module, model)]

reference = engine(forward_only=True)
found["reference"] = apart(reference.module, AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32))
critic = engine(kind="value_model")
values = logits(critic.module)
step(critic)
moved = (logits(critic.module) - values).abs().max().item()
found["shared"]["critic"] = shared(critic)
found["critic"] = [list(values.shape), bool(values.isfinite().all()), moved]
def by(function):
    scores = torch.linspace(-30, 30, 4 * 50).sin().mul(20).reshape(4, 50).requires_grad_()
    told = function(logits=scores, labels=torch.tensor([0, 49, 7, 7]))
    told.square().sum().backward()
    return torch.cat([told.detach()[:, None], scores.grad], 1)
found["outputs"] = inspect.getsource(inspect.unwrap(transformer_impl.FSDPEngineWithLMHead.prepare_model_outputs))
found["log-probabilities"] = (by(log_probabilities) - by(transformer_impl.logprobs_from_logits)).abs().max().item()
print("FOUND" + json.dumps(found))
torch.distributed.destroy_process_group()
"""


pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tiny_folder(tmp_path_factory.mktemp("tiny"))
    environment = {**os.environ, "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.split("FOUND")[1].splitlines()[0])


def test_the_process_group_has_a_backend_and_the_trainer_the_cores(found):
    assert found["backend"] in ("gloo", "cpu:gloo")
    assert found["threads"] == len(os.sched_getaffinity(0))


def test_an_actors_weights_reach_the_rollout(found):
    assert found["before"] < 1e-6
    assert found["moved"] > 1e-3
    assert found["synced"] < 1e-6


def test_an_adapter_reaches_the_rollout_unmerged_and_again(found):
    assert found["lora moved"] > 1e-4
    assert found["lora synced"] < 1e-5
    assert found["lora synced again"] < 1e-5


def test_merged_weights_reach_the_rollout_as_precisely_as_verl_sends_them(found):
    peft, apart = found["merged"]
    assert peft is None
    assert apart < 0.05  # bfloat16


def test_a_reference_policy_needs_no_accelerator(found):
    assert found["reference"] < 1e-6


def test_a_critic_is_built_and_learns(found):
    shape, finite, moved = found["critic"]
    assert shape == [1, 20, 1]
    assert finite
    assert moved > 1e-4


def test_log_probabilities_are_verls_and_verl_takes_them_by_the_name_that_is_replaced(found):
    assert found["log-probabilities"] < 1e-5
    assert "log_probs = logprobs_from_logits(logits=" in found["outputs"]


@pytest.mark.parametrize("engine", ["actor", "warmer", "lora", "critic"])
def test_a_prompt_of_several_rows_is_computed_once(found, engine):
    apart, lines, padded = found["shared"][engine]
    assert lines == [[1, 256]]
    assert padded == [[24, 47]]
    assert apart < 1e-5
