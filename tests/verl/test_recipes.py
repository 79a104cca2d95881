"""Each recipe on verl itself, and ways to train that no recipe has.

Three steps of `agent-env train` each, with real processes, through our loops and trainers.
"""

import math
from collections import Counter
from pathlib import Path

import pytest

from agent_env.training.verl import settings
from support.short_runs import trained

BABBLE = Path(__file__).parent / "babble"
TASKS, ROLLOUTS, STEPS, TURNS = 2, 3, 3, 3
QUICK = ("ppo",)
"""What `make test` runs too: a critic. (It trains with step credit in `test_pictures_training.py`.)"""
CASES = [
    pytest.param(recipe, context, id=f"{recipe}-{context}", marks=[] if quick else [pytest.mark.slow])
    for recipe in settings.available("recipe")
    for context in ("conversation", "steps")
    for quick in [recipe in QUICK and context == (settings.about("recipe", recipe)[1] or "conversation")]
    if settings.about("recipe", recipe)[1] in (None, context)
]


VARIANTS = {
    "kl-in-reward": ("algorithm.use_kl_in_reward=true", "algorithm.kl_ctrl.kl_coef=0.01"),
    "rollout-correction": ("algorithm.rollout_correction.rollout_is=token",),
    "by-tokens": ("+trainer.v1.agentenv.session_weight=token",),
    "colocate-async": ("trainer.v1.trainer_mode=agentenv_colocate_async",),
}
"""What an estimator of steps is trained with beside its recipe."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("recipe", "context"), CASES)
def test_a_recipe_trains(tmp_path, recipe, context):
    trains(tmp_path, recipe, context)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gigpo_trains_in_other_ways(tmp_path, variant):
    trains(tmp_path, "gigpo", "steps", VARIANTS[variant])


def trains(tmp_path, recipe, context, overrides=()):
    options = ("--recipe", recipe, "--context", context)
    settings = (f"data.train_batch_size={TASKS}", f"actor_rollout_ref.rollout.n={ROLLOUTS}")
    settings += ("data.max_prompt_length=1024", f"data.max_response_length={12 if context == 'steps' else 96}")
    settings += ("actor_rollout_ref.actor.ppo_mini_batch_size=1", "critic.ppo_mini_batch_size=1")
    settings += ("trainer.val_before_train=false", "trainer.test_freq=3")
    metrics, traces = trained(tmp_path, BABBLE, STEPS, *options, *settings, *overrides)
    for data in metrics:
        assert data["episode/count"] == TASKS * ROLLOUTS
        assert data["episode/reward/min"] < data["episode/reward/max"]
        assert data["critic/score/mean"] == data["episode/reward/mean"]
        assert {f"episode/score/say-{turn}/mean" for turn in (1, 2, 3)} <= data.keys()
        assert math.isfinite(data["actor/grad_norm"])
        assert data["actor/grad_norm"] > 0
        if context == "steps":
            # A reply that happens to hold a tool call's mark, which cannot be read, is a step more.
            assert data["episode/length/min"] == TURNS <= data["episode/length/max"]
            # Each task's three turns are three states, which its three rollouts share: the prompt names no past.
            assert data["step_group/size/max"] >= ROLLOUTS
            assert data["step_group/singleton_share"] < 0.5
    assert metrics[-1]["validation/missing"] == 0
    assert {trace.status for trace in traces} == {"ok"}
    played = Counter(trace.split for trace in traces)
    assert played["eval"] == 2
    assert played["train"] >= STEPS * TASKS * ROLLOUTS  # more where groups were filtered
