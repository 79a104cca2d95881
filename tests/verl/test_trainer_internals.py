"""The installed verl still has what our trainers lean on (see the docstring of `agent_env.training.verl.trainers`)."""

import warnings

import pytest

from support.installed import parameters, source


@pytest.fixture(scope="module")
def v1():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl warns of every engine that is not installed
        import verl.trainer.ppo.v1 as module
    return module


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fit", ["self", "agent_loop_manager"]),
        ("_compute_advantage", ["self", "batch", "metrics"]),
        ("_compute_metrics", ["self", "batch", "metrics", "timing_raw", "global_steps", "epoch"]),
        ("_get_required_batch_multiple", ["self", "dp_size"]),
        ("_update_actor", ["self", "batch", "metrics"]),
        ("_update_critic", ["self", "batch", "metrics"]),
        ("_validate", ["self"]),
    ],
)
def test_an_overridden_method_is_called_as_verl_calls_its_own(v1, name, expected):
    assert parameters(getattr(v1.PPOTrainer, name)) == expected
    for mode in ("sync", "colocate_async", "separate_async"):
        trainer = v1.get_trainer_cls(f"agentenv_{mode}")
        assert trainer.__mro__[2] is v1.get_trainer_cls(mode)
        assert parameters(getattr(trainer, name)) == expected


def test_verls_trainer_reads_what_ours_puts_in_place(v1):
    trainer = v1.PPOTrainer
    assert 'self.trainer_mode == "sync"' in source(trainer._build_replay_buffer)
    assert "self._get_required_batch_multiple(dp_size)" in source(trainer._balance_batch)
    assert "self.config.actor_rollout_ref.actor.ppo_mini_batch_size" in source(trainer._update_actor)
    assert "self.config.critic.ppo_mini_batch_size" in source(trainer._update_critic)
    # A step's rows reach `_compute_advantage` with old, reference and critic outputs there already.
    order = ["balance_batch", "compute_old_log_prob", "compute_ref_log_prob", "compute_values", "compute_advantage"]
    text = source(trainer._step_once)
    assert sorted(order, key=lambda name: text.index(f"self._{name}(")) == order
