"""Three steps of training on verl itself, on each bundle that needs packages of its own."""

import json
import math
import subprocess
import sys
from collections import Counter

import pytest

from agent_env.bundle import built_in_bundles
from agent_env.install.installer import setup_of
from agent_env.training.traces import read_traces
from support.tiny_folder import tiny_folder

BUNDLES = [name for name in built_in_bundles() if setup_of(name).manifest.install is not None]
TASKS, ROLLOUTS, STEPS = 2, 2, 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_trains(tmp_path, name):
    model = tiny_folder(tmp_path / "model")
    command = [sys.executable, "-m", "agent_env.cli.main", "train", name, "--recipe", "gigpo", "--profile", "cpu"]
    command += ["--model", str(model), "--run", "it", "--steps", str(STEPS), "--step", "max_steps=3"]
    command += [f"data.train_batch_size={TASKS}", f"actor_rollout_ref.rollout.n={ROLLOUTS}"]
    command += ["data.max_prompt_length=4000", "data.max_response_length=16"]
    command += ["actor_rollout_ref.actor.ppo_mini_batch_size=1"]
    command += ["trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.save_freq=-1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "it"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line["data"]["training/rollout_failure/lost_sessions"] == 0
        assert line["data"]["episode/count"] == TASKS * ROLLOUTS
        assert math.isfinite(line["data"]["actor/grad_norm"])
    traces = list(read_traces(run / "traces"))
    assert Counter((trace.status, trace.split) for trace in traces) == {("ok", "train"): STEPS * TASKS * ROLLOUTS}
    assert all(trace.steps for trace in traces)
