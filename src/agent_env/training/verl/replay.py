"""verl's replay buffers, with three things that stock ones lack; chosen by ``trainer.v1.sampler.custom_sampler``.

* A step doesn't wait on a poll: stock ones look every 2 s whether the rollouts are done, these every 50 ms.
* Rollouts that were lost show. verl fills a batch up with padding rows in place of those whose session raised, and goes
  on. Here a warning says how many, and the step's metrics hold ``training/rollout_failure/lost_sessions`` and
  ``…/lost_share``.
* A batch has one order, whichever rollout came first: prompts as the data loader gave them, a prompt's sessions by what
  they hold. So mini-batches, and with them a whole run, repeat.

verl gives a custom sampler no word of its configuration but ``trainer.v1.sampler.sampler_kwargs``; there stand
``rollouts`` and ``val_rollouts`` (sessions per prompt) and ``sync_refill_failed_groups``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05


class _Sync(ReplayBuffer):
    """For ``trainer_mode=sync``, and what both buffers add to verl's."""

    def __init__(self, *, sampler_kwargs: Any, trainer_mode: str, **kwargs: Any) -> None:
        refill = bool(sampler_kwargs.get("sync_refill_failed_groups", False)) and trainer_mode == "sync"
        super().__init__(
            trainer_mode=trainer_mode,
            sampler_kwargs=sampler_kwargs,
            poll_interval=POLL_SECONDS,
            sync_refill_failed_groups=refill,
            gen_batch_size=1 if refill else None,
            **kwargs,
        )
        self._sessions = {"train": int(sampler_kwargs.rollouts), "val": int(sampler_kwargs.get("val_rollouts", 1))}
        self._lost = 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """As verl's; the metrics say how many sessions of the batch were lost."""
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if partition_id == "train":
            metrics["training/rollout_failure/lost_sessions"] = self._lost
            metrics["training/rollout_failure/lost_share"] = self._lost / (batch_size * self._sessions["train"])
        return batch, metrics

    def _select_prompt_uids(self, partition_id: str, sampleable_keys: set[str], batch_size: int) -> tuple[Any, ...]:
        _, partition, steps = super()._select_prompt_uids(partition_id, sampleable_keys, batch_size)
        # TransferQueue lists keys in the order in which they were put, so `steps` is in the data loader's.
        oldest_first = sorted((uid for uid in steps if uid in sampleable_keys), key=lambda uid: steps[uid])
        return oldest_first[:batch_size], partition, steps

    def _materialize_batch(self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: Any) -> Any:
        batch = super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
        sessions = {key.rsplit("_", 1)[0] for key in batch.keys}
        wanted = len(selected_prompt_uids) * self._sessions[partition_id]
        self._lost = wanted - len(sessions)
        if self._lost:
            instead = "padding rows that teach nothing stand in for them" if partition_id == "train" else "left out"
            logger.warning(
                "%d of %d %s rollouts were lost (%s); their errors are in the log above",
                *(self._lost, wanted, "training" if partition_id == "train" else "validation", instead),
            )
        if partition_id == "train" and batch.keys:
            batch.reorder(_order(batch, selected_prompt_uids))
        return batch


def _order(batch: Any, uids: list[str]) -> list[int]:
    """Positions of the batch's rows: by prompt as in `uids`, by session's tokens, and by row within a session."""
    fields = ["prompts", "responses"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    sessions: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for position, key in enumerate(batch.keys):
        uid, session, row = key.rsplit("_", 2)
        sessions[uid, session].append((int(row), position))
    tokens = [[tensor.tolist() for tensor in data[field].unbind()] for field in fields]
    place = {uid: number for number, uid in enumerate(uids)}

    def content(item: tuple[tuple[str, str], list[tuple[int, int]]]) -> Any:
        (uid, _), rows = item
        return place[uid], [(tokens[0][position], tokens[1][position]) for _, position in sorted(rows)]

    return [position for _, rows in sorted(sessions.items(), key=content) for _, position in sorted(rows)]


class _Async(_Sync, ReplayBufferAsync):
    """For the other trainer modes: verl's own policy, through the method resolution order."""


def replay_buffer(*, trainer_mode: str, **kwargs: Any) -> ReplayBuffer:
    """The buffer for a trainer mode; arguments as verl passes them to a custom sampler's class."""
    return (_Sync if trainer_mode == "sync" else _Async)(trainer_mode=trainer_mode, **kwargs)
