"""The replay buffers on a real TransferQueue: order, lost sessions, what verl fills up with."""

import json
import os
import subprocess
import sys

import pytest

from agent_env.training.verl.processes import Processes

SCRIPT = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
import ray, torch, transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from agent_env.training.verl.replay import NothingPlayed, RolloutsLost, replay_buffer

logging.basicConfig(stream=sys.stderr)
ray.init(num_cpus=4, include_dashboard=False, logging_level="error")
tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
refilled = []
buffer = replay_buffer(
    trainer_mode="MODE",
    trainer_config=OmegaConf.create({}),
    max_off_policy_threshold=8,
    max_off_policy_strategy="drop",
    sampler_kwargs=OmegaConf.create({"rollouts": 3, "val_rollouts": 1, "sync_refill_failed_groups": True}),
    refill_fn=refilled.append,
)

def lossy_and_filtered():
    told = {}
    # Two of three sessions lost, step after step: twice it goes on.
    for number in (1, 2, 3):
        prompts("train", **{f"h{number}": "running"})
        rows("train", **{f"h{number}_0_0": [5]})
        prompts("train", **{f"h{number}": "failure"})
        try:
            batch, _ = buffer.sample(global_steps=2, partition_id="train", batch_size=1)
            tq.kv_clear(keys=batch.keys, partition_id="train")
        except RolloutsLost as error:
            told["lost"] = [number, str(error)]
    # Dynamic sampling: each refill is another group of one reward; after 2 batches of them the next ones pass.
    count = []
    def refill(number):
        for _ in range(number):
            uid = f"r{len(count)}"
            count.append(uid)
            prompts("train", **{uid: "running"})
            for session in range(3):
                row = {"prompts": torch.tensor([1]), "responses": torch.tensor([2]), "rm_scores": torch.tensor([0.5])}
                tq.kv_batch_put(
                    keys=[f"{uid}_{session}_0"], partition_id="train", fields=list_of_dict_to_tensordict([row]),
                    tags=[{"status": "success", "seq_len": 2, "global_steps": 3}],
                )
            prompts("train", **{uid: "finished"})
    options = {
        "rollouts": 3, "train_batch_size": 2,
        "filter_groups": {"enable": True, "metric": "reward", "max_num_gen_batches": 2, "max_inflight_gen_batches": 1},
    }
    filtering = replay_buffer(
        trainer_mode="sync", trainer_config=OmegaConf.create({}), max_off_policy_threshold=8,
        max_off_policy_strategy="drop", sampler_kwargs=OmegaConf.create(options), refill_fn=refill,
    )
    for key in list(tq.kv_list().get("train", {})):
        tq.kv_clear(keys=[key], partition_id="train")
    refill(2)
    batch, metrics = filtering.sample(global_steps=3, partition_id="train", batch_size=2)
    told["filtered"] = [sorted({key.split("_")[0] for key in batch.keys}), metrics]
    return told

def prompts(partition, **status):
    for uid, state in status.items():
        tag = {"is_prompt": True, "status": state, "global_steps": 1}
        tq.kv_batch_put(keys=[uid], partition_id=partition, tags=[tag])

def rows(partition, **named):
    # in the order in which they came; the session's number says nothing of what it holds
    for key, tokens in named.items():
        row = {"prompts": torch.tensor([1, 2]), "responses": torch.tensor(tokens)}
        tq.kv_batch_put(
            keys=[key], partition_id=partition, fields=list_of_dict_to_tensordict([row]),
            tags=[{"status": "success", "seq_len": 2 + len(tokens), "global_steps": 1}],
        )

prompts("train", b="running", a="running")
rows("train", a_1_0=[9], b_2_0=[7, 1], a_0_0=[4], b_0_1=[3], b_0_0=[8], a_2_0=[4, 1], b_1_0=[7])
prompts("train", a="finished", b="finished")
batch, metrics = buffer.sample(global_steps=1, partition_id="train", batch_size=2)
found = {"whole": [batch.keys, metrics]}

tq.kv_clear(keys=batch.keys, partition_id="train")
prompts("train", c="running", d="running")
rows("train", c_0_0=[5], d_0_0=[6], d_1_0=[6], d_2_0=[6])
prompts("train", c="failure", d="finished")
batch, metrics = buffer.sample(global_steps=2, partition_id="train", batch_size=2) if "MODE" == "sync" else (None, None)
found["lossy"] = [batch and batch.keys, metrics]

prompts("val", e="failure", f="finished")
rows("val", f_0_0=[6])
batch, metrics = buffer.sample(global_steps=2, partition_id="val", batch_size=2)
found["val"] = [batch.keys, metrics]

prompts("val", g="failure")
try:
    buffer.sample(global_steps=2, partition_id="val", batch_size=1)
except NothingPlayed as error:
    found["nothing"] = str(error)
if "MODE" == "sync":
    found |= lossy_and_filtered()
print("FOUND" + json.dumps(found))
tq.close()
ray.shutdown()
"""


def found(mode):
    command = [sys.executable, "-c", SCRIPT.replace("MODE", mode)]
    with Processes() as processes, processes.ray_folder() as ray:
        settings = {"VERL_PLATFORM": "cpu", "RAY_TMPDIR": str(ray), "RAY_USAGE_STATS_ENABLED": "0"}
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | settings
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.split("FOUND")[1].splitlines()[0]), ran.stderr


@pytest.mark.timeout(300)
def test_a_batch_has_one_order_and_lost_sessions_show():
    result, log = found("sync")
    keys, metrics = result["whole"]
    # prompts as they were put; a prompt's sessions by their tokens; a session's rows by number
    assert keys == ["b_1_0", "b_2_0", "b_0_0", "b_0_1", "a_0_0", "a_2_0", "a_1_0"]
    assert metrics["training/rollout_failure/lost_sessions"] == 0
    keys, metrics = result["lossy"]
    assert keys[0] == "c_0_0"
    assert metrics["training/rollout_failure/lost_sessions"] == 2
    assert metrics["training/rollout_failure/lost_share"] == pytest.approx(2 / 6)
    assert "2 of 6 training rollouts were lost (padding rows that teach nothing stand in for them)" in log
    keys, metrics = result["val"]
    assert keys == ["f_0_0"]
    assert metrics == {}
    assert "1 of 2 validation rollouts were lost (left out)" in log
    assert result["nothing"] == "all of its 1 rollouts were lost; their errors are in the log"
    # The step before them lost a third: they are the first three in a row above a half.
    number, error = result["lost"]
    assert number == 3
    assert error == "67%, 67%, 67% of the last 3 steps' rollouts were lost; their errors are in the log"
    groups, metrics = result["filtered"]
    assert groups == ["r4", "r5"]  # four groups of one reward are two batches of two: filtered, and no more
    assert metrics["training/filter_groups/evicted_samples"] == 4
    assert metrics["training/filter_groups/gave_up"] == 1
    assert metrics["training/rollout_failure/lost_share"] == 0


@pytest.mark.timeout(300)
def test_the_asynchronous_buffer_is_verls_with_the_same():
    result, _ = found("colocate_async")
    assert result["whole"][0] == ["b_1_0", "b_2_0", "b_0_0", "b_0_1", "a_0_0", "a_2_0", "a_1_0"]
