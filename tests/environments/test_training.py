"""Three steps of training on verl itself, on each bundle that needs packages of its own."""

import json
import math
from collections import Counter

import pytest

from agent_env.bundle import built_in_bundles, load_bundle
from agent_env.install.installer import setup_of
from support.short_runs import trained
from support.tiny_folder import WORDS, tiny_folder

BUNDLES = [name for name in built_in_bundles() if setup_of(name).manifest.install is not None]
TASKS, ROLLOUTS, STEPS = 2, 2, 3


def words(name):
    """What the tokenizer is learned from; of a prompt as long as a policy with 43 tools it makes 2,000 tokens."""
    bundle = load_bundle(name)
    task = bundle.tasks("train")[0]
    tools = [json.dumps(tool.openai()) for tool in bundle.toolset(task).tools]
    text = "\n".join([task.system_prompt, *tools])
    return [text, text] if len(text) > 10_000 else WORDS


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_trains(tmp_path, name):
    options = ("--recipe", "gigpo", "--profile", "cpu", "--step", "max_steps=3")
    settings = (f"data.train_batch_size={TASKS}", f"actor_rollout_ref.rollout.n={ROLLOUTS}")
    settings += ("data.max_prompt_length=4000", "data.max_response_length=16")
    settings += ("actor_rollout_ref.actor.ppo_mini_batch_size=1",)
    settings += ("trainer.val_before_train=false", "trainer.test_freq=-1")
    model = tiny_folder(tmp_path / "model", words=words(name))
    metrics, traces = trained(tmp_path, name, STEPS, *options, *settings, timeout=800, model=model)
    for data in metrics:
        assert data["episode/count"] == TASKS * ROLLOUTS
        assert math.isfinite(data["actor/grad_norm"])
    assert Counter((trace.status, trace.split) for trace in traces) == {("ok", "train"): STEPS * TASKS * ROLLOUTS}
    assert all(trace.steps for trace in traces)
