"""verl's V1 trainers with our credit: ``trainer.v1.trainer_mode`` ``agentenv_sync``, ``agentenv_colocate_async`` and
``agentenv_separate_async``.

They are verl's own, but for this:

* **Advantages.** `agent_env.training.credit` computes them from what the loop says of each row: a trajectory counts
  once whatever its number of rows, padding rows never. The estimators that it does not have are left to verl, and so is
  a critic's GAE in the conversation layout, which runs over tokens there.
* **Loss.** Every episode weighs the same, also if it has more rows or tokens than another (``session_weight``).
* **Optimizer steps.** As many a training step as ``data.train_batch_size / actor.ppo_mini_batch_size``, and likewise
  for the critic, however many rows the episodes have. verl's count rows as if each were an episode.
* **Metrics** of episodes and step groups, and each turn's scores, in training too.
* **A process that plays rollouts and dies** ends the run with its reason (`liveness`); verl's own would wait for ever.
* **An evaluation of which every rollout failed** is a metric, ``validation/missing``, and not the end of the run.

Options stand in ``trainer.v1.agentenv`` (see `credit_options`). The modes need the replay buffers of
`agent_env.training.verl.replay`.

Of verl they override `PPOTrainer.fit`, `_compute_advantage`, `_compute_metrics`, `_get_required_batch_multiple`,
`_update_actor`, `_update_critic` and `_validate`; ``tests/verl/test_internals.py`` checks that these are there, with
their arguments.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop import AgentLoopManager
from verl.protocol import DataProto
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from agent_env.training.credit import ESTIMATORS, advantages
from agent_env.training.verl.batch_credit import BatchRows, session_weights
from agent_env.training.verl.batch_metrics import batch_metrics
from agent_env.training.verl.credit_options import PREFIX, Options
from agent_env.training.verl.liveness import Workers
from agent_env.training.verl.replay import NothingPlayed

logger = logging.getLogger(__name__)


class _AgentEnv(PPOTrainer):
    """What the three trainers have in common; stands before one of verl's in the order of bases."""

    def __init__(self, config: DictConfig) -> None:
        # verl's own code asks for its own names of the modes: a replay buffer and a checkpoint depend on them.
        with open_dict(config):
            config.trainer.v1.trainer_mode = config.trainer.v1.trainer_mode.removeprefix(PREFIX)
        self._options = Options.read(config)
        super().__init__(config)

    def fit(self, agent_loop_manager: AgentLoopManager) -> None:
        self.replay_buffer.workers = Workers(agent_loop_manager.agent_loop_workers)
        super().fit(agent_loop_manager)

    # --- advantages -------------------------------------------------------------------------------------------------

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        where = {"keys": batch.keys, "partition_id": batch.partition_id}
        told = tq.kv_batch_get(**where, select_fields=["extra_fields", "rm_scores"])
        extra_fields = [_plain(extra) for extra in told.pop("extra_fields").tolist()]
        scores = told.to_padded_tensor()["rm_scores"]
        rows = BatchRows.read(batch.keys, batch.tags, extra_fields, _sums(scores))
        metrics.update(batch_metrics(rows))
        estimator = str(self.config.algorithm.adv_estimator)
        if estimator not in ESTIMATORS or (estimator == "gae" and rows.fields is None):
            return super()._compute_advantage(batch, metrics)

        wanted = ["response_mask", "rollout_log_probs", "old_log_probs", "ref_log_prob", "values"]
        data = tq.kv_batch_get(**where, select_fields=wanted)
        response_mask = data["response_mask"]
        padded = DataProto(batch=data.to_padded_tensor())
        padded.batch["token_level_scores"] = scores
        output = {}
        costs = np.zeros(len(rows))
        if self.config.algorithm.use_kl_in_reward:
            padded, kl_metrics = apply_kl_penalty(
                padded, kl_ctrl=self.kl_ctrl_in_reward, kl_penalty=self.config.algorithm.kl_penalty
            )
            metrics.update(kl_metrics)
            output["token_level_rewards"] = padded.batch["token_level_rewards"]
            costs = _sums(padded.batch["token_level_scores"] - padded.batch["token_level_rewards"])
        correction = self.config.algorithm.get("rollout_correction", None)
        if correction is not None and "rollout_log_probs" in padded.batch and not correction.get("bypass_mode", False):
            padded, correction_metrics = compute_rollout_correction_and_add_to_batch(padded, correction)
            metrics.update(correction_metrics)
            output["response_mask"] = padded.batch["response_mask"]
            if "rollout_is_weights" in padded.batch:
                output["rollout_is_weights"] = padded.batch["rollout_is_weights"]

        mask = padded.batch["response_mask"].to(torch.float32)
        of_row, returns = self._credit(estimator, rows, costs, padded, metrics)
        if self._options.session_weight == "session":
            mode = self.config.actor_rollout_ref.actor.loss_agg_mode
            of_row = of_row * session_weights(rows, _sums(mask), mode)
        output["advantages"] = torch.as_tensor(of_row, dtype=torch.float32)[:, None] * mask
        output["returns"] = torch.as_tensor(returns, dtype=torch.float32)[:, None] * mask
        nested = {name: response_to_nested(value, response_mask) for name, value in output.items()}
        return tq.kv_batch_put(**where, fields=TensorDict(nested, batch_size=len(batch)))

    def _credit(
        self, estimator: str, rows: BatchRows, costs: Any, padded: DataProto, metrics: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Advantage and return of each row, before any weights; both of shape (rows,)."""
        options = dict(self._options.credit)
        values = np.zeros(len(rows))
        if estimator == "grpo":
            deviation = self.config.algorithm.get("norm_adv_by_std_in_grpo", True)
            options = {"normalize": "mean_std" if deviation else "mean", **options}
        if estimator == "gae":
            # verl's values are those of the prefix before each token: the first is that of the prompt, the state.
            values = padded.batch["values"][:, 0].to(torch.float64).numpy()
            options = {"gamma": self.config.algorithm.gamma, "lam": self.config.algorithm.lam, **options}
            options |= {"values": values, "bootstrap": _after(rows, values)}
        if estimator == "gdpo":
            options["scores"] = rows.turn_scores()
        if "invalid_penalty" in ESTIMATORS[estimator].options:
            options["invalid_penalty"] = rows.penalty
        of_row = advantages(estimator, rows.steps(costs), form=self._options.form, **options)  # type: ignore[arg-type]
        counted = of_row[rows.counts]
        if len(counted):
            metrics["credit/advantage/mean"], metrics["credit/advantage/std"] = counted.mean(), counted.std()
            metrics["credit/nonzero_share"] = float(np.mean(counted != 0))
        return of_row, of_row + values

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        if "episode/reward/mean" in metrics:  # verl's mean is over rows: a long episode would weigh more
            metrics["critic/score/mean"] = metrics["episode/reward/mean"]

    # --- optimizer steps --------------------------------------------------------------------------------------------

    def _updates(self, mini_batch_size: int) -> int:
        """Optimizer steps a training step, of a mini-batch of so many prompts."""
        prompts = int(self.config.data.train_batch_size) // int(self.parameter_sync_step)
        return max(1, prompts // mini_batch_size)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        # verl counts a mini-batch in prompts, n rows each; what makes whole mini-batches of that kind is a multiple.
        per_rank = math.lcm(dp_size, self.config.actor_rollout_ref.rollout.n)
        required = per_rank * self._updates(self.config.actor_rollout_ref.actor.ppo_mini_batch_size)
        if self.use_critic:
            required = math.lcm(required, per_rank * self._updates(self.config.critic.ppo_mini_batch_size))
        return required

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._mini_batches(self.config.actor_rollout_ref.actor, len(batch)):
            return super()._update_actor(batch, metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._mini_batches(self.config.critic, len(batch)):
            return super()._update_critic(batch, metrics)

    @contextlib.contextmanager
    def _mini_batches(self, config: DictConfig, rows: int) -> Iterator[None]:
        """Within, `config` counts mini-batches so that `rows` make as many of them as prompts were meant to."""
        asked = config.ppo_mini_batch_size
        with open_dict(config):
            config.ppo_mini_batch_size = rows // (self._updates(asked) * self.config.actor_rollout_ref.rollout.n)
            try:
                yield
            finally:
                config.ppo_mini_batch_size = asked

    # --- evaluation -------------------------------------------------------------------------------------------------

    def _validate(self) -> dict[str, Any]:
        try:
            return {**super()._validate(), "validation/missing": 0.0}
        except NothingPlayed as reason:
            logger.error("agent-env: the evaluation after step %d is missing: %s", self.global_steps, reason)
            return {"validation/missing": 1.0}


def _plain(extra: Any) -> dict[str, Any]:
    """A row's extra fields, as TransferQueue hands them back or wrapped by tensordict."""
    value = getattr(extra, "data", extra)
    return value if isinstance(value, dict) else {}


def _sums(tokens: torch.Tensor) -> Any:
    return tokens.to(torch.float64).sum(dim=-1).numpy()


def _after(rows: BatchRows, values: Any) -> Any:
    """What a critic thinks the state after each row is worth, where that is asked for.

    The state after a truncated episode's last step was never a prompt, so the critic has no value of it; that of the
    last state it saw stands for it.
    """
    return np.where(rows.bootstrapped, values, 0.0)


@register_trainer(PREFIX + "sync")
class AgentEnvSync(_AgentEnv, PPOTrainerSync):
    """verl's ``sync`` with our credit: trainer and rollouts take turns."""


@register_trainer(PREFIX + "colocate_async")
class AgentEnvColocateAsync(_AgentEnv, PPOTrainerColocateAsync):
    """verl's ``colocate_async`` with our credit: rollouts go on over several training steps, on the same devices."""


@register_trainer(PREFIX + "separate_async")
class AgentEnvSeparateAsync(_AgentEnv, PPOTrainerSeparateAsync):
    """verl's ``separate_async`` with our credit: rollouts on devices of their own."""
