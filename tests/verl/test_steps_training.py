"""verl's own trainer on rows of the step layout: `agent-env train --context steps`, with real processes."""

import shutil
from collections import Counter

import pytest

from support.short_runs import trained
from support.verl_tier import CORRIDOR

SESSIONS = 2 * 2
"""Of a step: two tasks, two rollouts each."""


@pytest.mark.timeout(600)
def test_verls_sync_trainer_takes_several_rows_a_session(tmp_path):
    bundle = shutil.copytree(CORRIDOR, tmp_path / "bundle")
    manifest = (bundle / "bundle.toml").read_text()
    (bundle / "bundle.toml").write_text(manifest.replace(', "long"', ""))  # whose prompt no run would take
    options = ("--context", "steps", "--step", "memory=recent(1)", "--step", "max_steps=3")
    options += ("--step", "max_step_tokens=8")
    settings = ("data.train_batch_size=2", "actor_rollout_ref.rollout.n=2", "data.max_prompt_length=512")
    settings += ("data.max_response_length=16", "actor_rollout_ref.actor.ppo_mini_batch_size=2")
    settings += ("trainer.val_before_train=false", "trainer.test_freq=2")
    metrics, traces = trained(tmp_path, bundle, 2, *options, *settings)
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
    assert [data["perf/total_num_tokens"] for data in metrics] == [tokens[1], tokens[2]]
    assert metrics[1]["val-aux/agentenv/corridor/steps/mean@1"] == 3.0
