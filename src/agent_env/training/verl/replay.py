"""verl's replay buffers, with three things that stock ones lack; chosen by ``trainer.v1.sampler.custom_sampler``.

* A step doesn't wait on a poll: stock ones look every 2 s whether the rollouts are done, these every 50 ms.
* Rollouts that were lost show. verl fills a batch up with padding rows in place of those whose session raised, and goes
  on. Here a warning says how many, and the step's metrics hold ``training/rollout_failure/lost_sessions`` and
  ``…/lost_share``.
  A run that goes on losing most of them ends (`RolloutsLost`): what it would learn from is not what it was asked to.
* A batch has one order, whichever rollout came first: prompts as the data loader gave them, a prompt's sessions by what
  they hold. So mini-batches, and with them a whole run, repeat.

Dynamic sampling (``algorithm.filter_groups``) works as with stock ones and ends: stock ones go on for ever where every
group has one reward, these let groups pass once ``filter_groups.max_num_gen_batches`` batches were filtered.

verl gives a custom sampler no word of its configuration but ``trainer.v1.sampler.sampler_kwargs``: see
`BufferOptions`.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from agent_env.errors import InputError
from agent_env.training.traces import read_traces
from agent_env.training.verl.liveness import Workers

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05


class NothingPlayed(RuntimeError):
    """Every rollout of an evaluation was lost; the message says of how many."""


class RolloutsLost(RuntimeError):
    """A run loses most of its rollouts, step after step; the message says how many and of what."""


@dataclass(frozen=True)
class BufferOptions:
    """``trainer.v1.sampler.sampler_kwargs``.

    Args:
        rollouts, val_rollouts: sessions a prompt, in training and in evaluation.
        sync_refill_failed_groups: whether another prompt takes the place of one that lost all its sessions.
        train_batch_size: prompts a step.
        filter_groups: verl's ``algorithm.filter_groups``.
        lost_limit: the share of a step's sessions above which it counts as lost; 1 never ends a run.
        lost_steps: so many such steps in a row end the run, and so many batches of prompts given up for one.
        traces: the folder the loops record rollouts in, for the reasons; None to leave them out.
    """

    rollouts: int
    val_rollouts: int = 1
    sync_refill_failed_groups: bool = False
    train_batch_size: int | None = None
    filter_groups: Any = None
    lost_limit: float = 0.5
    lost_steps: int = 3
    traces: str | None = None

    @classmethod
    def read(cls, given: Any) -> BufferOptions:
        return cls(**{option.name: given[option.name] for option in fields(cls) if option.name in given})


class _Sync(ReplayBuffer):
    """For ``trainer_mode=sync``, and what both buffers add to verl's."""

    def __init__(self, *, sampler_kwargs: Any, trainer_mode: str, **kwargs: Any) -> None:
        self._options = options = BufferOptions.read(sampler_kwargs)
        refill = bool(options.sync_refill_failed_groups) and trainer_mode == "sync"
        filtering = options.filter_groups is not None and bool(options.filter_groups.enable)
        super().__init__(
            trainer_mode=trainer_mode,
            sampler_kwargs=sampler_kwargs,
            poll_interval=POLL_SECONDS,
            sync_refill_failed_groups=refill,
            gen_batch_size=1 if refill or filtering else None,
            filter_groups_metric=str(options.filter_groups.metric) if filtering else None,
            max_inflight_gen_batches=int(options.filter_groups.get("max_inflight_gen_batches", 1)) if filtering else 1,
            train_batch_size=options.train_batch_size,
            **kwargs,
        )
        self._most_filtered = int(options.filter_groups.get("max_num_gen_batches", 0)) if filtering else 0
        self._sessions = {"train": options.rollouts, "val": options.val_rollouts}
        self._lost = 0
        self._filtered = self._evicted = 0
        self._shares: deque[float] = deque(maxlen=options.lost_steps)
        self.workers: Workers | None = None
        """That play what is waited for, once they are there; each poll looks whether they live."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """As verl's; the metrics say how many sessions of the batch, and of the prompts it was refilled for, were lost.

        Raises:
            NothingPlayed: nothing is left of an evaluation's batch.
            RolloutsLost: more than ``lost_limit`` of the sessions were lost, ``lost_steps`` times in a row.
        """
        self._filtered = self._evicted = 0
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if partition_id != "train":
            return batch, metrics
        lost = self._lost + self._evicted * self._options.rollouts
        share = lost / ((batch_size + self._evicted) * self._options.rollouts)
        metrics["training/rollout_failure/lost_sessions"] = lost
        metrics["training/rollout_failure/lost_share"] = share
        if self._gave_up:
            metrics["training/filter_groups/gave_up"] = 1
        self._shares.append(share)
        if len(self._shares) == self._shares.maxlen and min(self._shares) > self._options.lost_limit:
            shares = ", ".join(f"{share:.0%}" for share in self._shares)
            raise RolloutsLost(f"{shares} of the last {len(self._shares)} steps' rollouts were lost{self._reasons()}")
        return batch, metrics

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        """As verl's. Raises WorkerDied if nobody plays any more what is waited for."""
        if self.workers is not None:
            self.workers.check()
        return float(super()._wait_for_next_poll(partition_id, last_debug_time))

    @property
    def _gave_up(self) -> bool:
        """Whether so many groups were filtered for this batch that the others pass."""
        return 0 < self._most_filtered * (self.train_batch_size or 0) <= self._filtered

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[Any]]:
        return (set(), Counter()) if self._gave_up else super()._dapo_filtered_keys(partition_id)

    def _evict_terminal_groups(self, global_steps: int, partition_id: str, eviction_reasons: Any) -> Any:
        evicted = super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)
        _, filtered, failed, _ = eviction_reasons
        self._filtered += len(filtered)
        self._evicted += len(failed)
        most = self._options.lost_steps * (self._options.train_batch_size or 1)
        if self._options.lost_limit < 1 and self._evicted >= most:
            raise RolloutsLost(
                f"{self._evicted} prompts were given up in a row for their lost rollouts{self._reasons()}"
            )
        return evicted

    def _reasons(self) -> str:
        """The most frequent errors of the rollouts lost so far, as the end of a sentence."""
        if self._options.traces is None or not Path(self._options.traces).is_dir():
            return "; their errors are in the log"
        try:
            traces = read_traces(self._options.traces)
        except InputError as error:
            return f"; {error}"
        lost = [trace.errors[-1] for trace in traces if trace.errors and trace.status != "ok"]
        told = "; ".join(f"{count} times {reason}" for reason, count in Counter(lost).most_common(3))
        return f", of {len(lost)} recorded: {told}" if lost else "; their errors are in the log"

    def _select_prompt_uids(self, partition_id: str, sampleable_keys: set[str], batch_size: int) -> tuple[Any, ...]:
        _, partition, steps = super()._select_prompt_uids(partition_id, sampleable_keys, batch_size)
        # TransferQueue lists keys in the order in which they were put, so `steps` is in the data loader's.
        oldest_first = sorted((uid for uid in steps if uid in sampleable_keys), key=lambda uid: steps[uid])
        return oldest_first[:batch_size], partition, steps

    def _materialize_batch(self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: Any) -> Any:
        batch = super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)
        sessions = {key.rsplit("_", 1)[0] for key in batch.keys}
        wanted = len(selected_prompt_uids) * self._sessions[partition_id]
        if partition_id != "train" and not sessions:
            raise NothingPlayed(f"all of its {wanted} rollouts were lost{self._reasons()}")
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
