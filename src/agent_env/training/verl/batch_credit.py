"""From a batch of verl's rows to an advantage for each of them: plain arrays in and out, no Ray, no TransferQueue.

A row of the step layout is a step of an episode and says so in its ``extra_fields`` (`step_fields`); a row of the
conversation layout is a whole episode. verl's padding rows are copies of another row, under a key of their own and with
``is_padding`` in their tag: they count nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_env.errors import InputError, Problem
from agent_env.training.credit import Steps
from agent_env.training.verl import step_fields as fields

Array = NDArray[np.float64]
SCORE = "score/"
"""What the keys of the turns' scores in ``reward_extra_info`` begin with."""


@dataclass(frozen=True, eq=False)
class BatchRows:
    """The rows of a batch, one entry each in every array.

    Args:
        group: verl's uid of the prompt.
        session: ``{uid}_{session_id}`` of the episode.
        step: place of the row in its episode, from 0.
        padding: whether verl made the row up.
        fields: what the step layout says of each row; None if the rows are of the conversation layout.
        scores: the episode's reward, as verl keeps it on each of its rows.
        extra_info: the episode's ``reward_extra_info``.
    """

    group: NDArray[np.str_]
    session: NDArray[np.str_]
    step: NDArray[np.int64]
    padding: NDArray[np.bool_]
    fields: Mapping[str, list[Any]] | None
    scores: Array
    extra_info: Sequence[Mapping[str, Any]]

    @classmethod
    def read(
        cls,
        keys: Sequence[str],
        tags: Sequence[Mapping[str, Any]],
        extra_fields: Sequence[Mapping[str, Any]],
        scores: ArrayLike,
    ) -> BatchRows:
        """The rows of a `KVBatchMeta`.

        Args:
            keys, tags: of the batch; a key is ``{uid}_{session_id}_{row}``.
            extra_fields: of each row.
            scores: the sum of each row's token-level scores.
        """
        split = [key.rsplit("_", 2) for key in keys]
        by_steps = bool(extra_fields) and all(fields.STEP in extra for extra in extra_fields)
        return cls(
            group=np.array([uid for uid, _, _ in split]),
            session=np.array([f"{uid}_{session}" for uid, session, _ in split]),
            step=np.array([int(row) for _, _, row in split], np.int64),
            padding=np.array([bool(tag.get("is_padding", False)) for tag in tags], bool),
            fields={name: [extra[name] for extra in extra_fields] for name in fields.StepFields.__annotations__}
            if by_steps
            else None,
            scores=np.asarray(scores, np.float64),
            extra_info=[extra.get("reward_extra_info") or {} for extra in extra_fields],
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def last(self) -> NDArray[np.bool_]:
        """Whether a row is the last one there is of its episode."""
        last = np.zeros(len(self), bool)
        order = np.lexsort((self.step, self.session))
        ends = np.ones(len(self), bool)
        ends[:-1] = self.session[order][1:] != self.session[order][:-1]
        last[order] = ends
        return last

    @property
    def penalty(self) -> float:
        """What an invalid step of this batch pays; 0 if none pays anything."""
        return 0.0 if self.fields is None else float(max(self.fields[fields.PENALTY], default=0.0))

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Whether a row is one to learn from: no padding, and of no episode that is to be left out."""
        kept = True if self.fields is None else np.array(self.fields[fields.COUNTS], bool)
        return ~self.padding & kept

    @property
    def bootstrapped(self) -> NDArray[np.bool_]:
        """Whether a critic's value is to stand for what would have come after a row."""
        return np.zeros(len(self), bool) if self.fields is None else np.array(self.fields[fields.BOOTSTRAP], bool)

    def turn_scores(self) -> dict[str, list[Any]]:
        """The episode's score of each turn (step id) that any episode has, on each row; None where it has none."""
        names = sorted({key for info in self.extra_info for key in info if key.startswith(SCORE)})
        return {name.removeprefix(SCORE): [info.get(name) for info in self.extra_info] for name in names}

    def steps(self, costs: ArrayLike = 0.0) -> Steps:
        """As the credit estimators take them.

        Args:
            costs: of each row, taken off its reward and its episode's: KL in reward.

        Raises:
            InputError: rows that contradict each other, or whose reward is no number.
        """
        cost = np.broadcast_to(np.asarray(costs, np.float64), len(self))
        _, episode = np.unique(self.session, return_inverse=True)
        of_episode = _per_row(episode, cost)
        if self.fields is None:
            return Steps(
                group=self.group,
                trajectory=self.session,
                step=self.step,
                step_reward=np.where(self.last, self.scores, 0.0) - cost,
                episode_reward=self.scores - of_episode,
                counts=self.counts,
            )
        return Steps(
            group=self.group,
            trajectory=self.session,
            step=self.step,
            step_reward=np.array(self.fields[fields.STEP_REWARD], np.float64) - cost,
            episode_reward=np.array(self.fields[fields.EPISODE_REWARD], np.float64) - of_episode,
            state=self.fields[fields.STATE],
            next_state=self.fields[fields.NEXT_STATE],
            valid=np.array(self.fields[fields.PENALTY], np.float64) == 0.0,
            success=self.fields[fields.SUCCESS],
            counts=self.counts,
        )


def session_weights(rows: BatchRows, tokens: ArrayLike, loss_agg_mode: str) -> Array:
    """What to multiply each row's advantage by, so that verl's loss is a mean over episodes.

    verl's own losses are means over a batch's tokens or rows: an episode of 50 steps weighs 10 times one of 5. With
    these weights each weighs the same; their mean over what verl counts is 1, so the loss keeps its scale.

    Args:
        tokens: of each row that enter the loss.
        loss_agg_mode: verl's: ``token-mean`` counts tokens, ``seq-mean-token-mean`` rows. The modes that add up tokens
            (``seq-mean-token-sum``, ``seq-mean-token-sum-norm``, ``token-sum``, as Dr. GRPO does) let a long episode
            weigh more on purpose: where they divide by the number of rows, it is made the number of episodes.

    Returns:
        shape (rows,); 0 for rows that do not count.

    Raises:
        InputError: an unknown mode.
    """
    counts = rows.counts
    amount = np.where(counts, np.asarray(tokens, np.float64), 0.0)
    _, episode = np.unique(rows.session, return_inverse=True)
    sessions = len(np.unique(rows.session[counts]))
    if sessions == 0:
        return np.zeros(len(rows))
    share: Array
    if loss_agg_mode == "token-mean":
        share, total = _per_row(episode, amount), float(amount.sum())
    elif loss_agg_mode == "seq-mean-token-mean":
        share, total = _per_row(episode, counts), float(len(rows))
    elif loss_agg_mode in ("seq-mean-token-sum", "seq-mean-token-sum-norm"):
        share, total = np.ones(len(rows)), float(len(rows))
    elif loss_agg_mode == "token-sum":
        share, total = np.ones(len(rows)), float(sessions)
    else:
        known = "token-mean, token-sum, seq-mean-token-mean, seq-mean-token-sum or seq-mean-token-sum-norm"
        raise InputError(Problem("actor.loss_agg_mode", f"unknown {loss_agg_mode!r}", f"one of {known}"))
    return np.where(counts & (share > 0), total / (sessions * np.where(share > 0, share, 1.0)), 0.0)


def _per_row(episode: NDArray[np.int64], amount: ArrayLike) -> Array:
    """What the rows of each row's episode have together; `episode` numbers each row's from 0."""
    return np.asarray(np.bincount(episode, weights=np.asarray(amount, np.float64))[episode], np.float64)
