"""verl's own trainer on rows of the step layout: `agent-env train --context steps`, with real processes."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agent_env.training.traces import read_traces
from support.tiny_folder import tiny_folder
from support.verl_tier import CORRIDOR

SESSIONS = 2 * 2
"""Of a step: two tasks, two rollouts each."""


@pytest.mark.timeout(600)
def test_verls_sync_trainer_takes_several_rows_a_session(tmp_path):
    model = tiny_folder(tmp_path / "model")
    bundle = shutil.copytree(CORRIDOR, tmp_path / "bundle")
    manifest = (bundle / "bundle.toml").read_text()
    (bundle / "bundle.toml").write_text(manifest.replace(', "long"', ""))  # whose prompt no run would take
    command = [sys.executable, "-m", "agent_env.cli.main", "train", str(bundle), "--context", "steps"]
    command += ["--model", str(model), "--run", "walk", "--steps", "2"]
    command += ["--step", "memory=recent(1)", "--step", "max_steps=3", "--step", "max_step_tokens=8"]
    command += ["data.train_batch_size=2", "actor_rollout_ref.rollout.n=2", "data.max_prompt_length=512"]
    command += ["data.max_response_length=16", "actor_rollout_ref.actor.ppo_mini_batch_size=2"]
    command += ["trainer.val_before_train=false", "trainer.test_freq=2", "trainer.save_freq=-1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "walk"
    metrics = [json.loads(line) for line in Path(run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2]
    for line in metrics:
        # A session that raised would be replaced by padding, and the run would still end well.
        assert line["data"]["training/rollout_failure/lost_sessions"] == 0
    traces = list(read_traces(run / "traces"))
    assert {trace.status for trace in traces} == {"ok"}
    # Two steps of training, and the evaluation of two tasks after the second.
    assert Counter(trace.split for trace in traces) == {"train": 2 * SESSIONS, "eval": 2}
    # A model that knows nothing writes no action, so every episode has as many rows as it may.
    assert {len(trace.steps) for trace in traces} == {3}
    assert {step.response_tokens for trace in traces for step in trace.steps} == {8}
    # verl trained on every row: the tokens of each step's batch are those of its episodes' rows, and no others.
    tokens = Counter()
    for trace in traces:
        if trace.split == "train":
            tokens[trace.step] += trace.prompt_tokens + trace.response_tokens
    assert [line["data"]["perf/total_num_tokens"] for line in metrics] == [tokens[1], tokens[2]]
    assert metrics[1]["data"]["val-aux/agentenv/corridor/steps/mean@1"] == 3.0
