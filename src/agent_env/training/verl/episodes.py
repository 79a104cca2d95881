"""What both loops do with an open session and a rollout that was played."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from agent_env.training.rollout import Played
from agent_env.training.sessions import Session
from agent_env.training.verl.cpu.rollout import ROLLOUT
from agent_env.training.verl.row import Row
from agent_env.training.verl.seeds import generation_seed, group_seed

T = TypeVar("T")


async def while_open(session: Session, generating: Coroutine[Any, Any, T]) -> T:
    """The result of `generating`, given up at once if the session is lost meanwhile: the episode cannot go on."""
    task, lost = asyncio.create_task(generating), asyncio.create_task(session.lost())
    try:
        await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise lost.result()
        return task.result()
    finally:
        for pending in (task, lost):
            pending.cancel()
        await asyncio.wait({task, lost})


def seeded(
    sampling_params: Mapping[str, Any],
    rollout: Any,
    row: Row,
    fields: Mapping[str, Any],
    *,
    attempt: int,
    generation: int,
) -> dict[str, Any]:
    """`sampling_params` with the generation's own seed, for our own rollout server: others pay for it in speed.

    Args:
        rollout: verl's configuration of it.
        row, fields, attempt, generation: as of `generation_seed`.
    """
    if rollout.name != ROLLOUT:
        return dict(sampling_params)
    seed = generation_seed(int(rollout.seed), row, fields, attempt=attempt, generation=generation)
    return {**sampling_params, "seed": seed}


def episode_seed(rollout: Any, row: Row, fields: Mapping[str, Any], draw_seeds: Collection[str]) -> int | None:
    """The seed of a rollout's episodes: its group's, or None for the task's own.

    Args:
        rollout: verl's configuration of it.
        row, fields: as of `group_seed`.
        draw_seeds: the splits whose groups have seeds of their own.
    """
    return group_seed(int(rollout.seed), row, fields) if row.split in draw_seeds else None


def seed_of(session: Session) -> int | None:
    """The seed of the episode, if the server says it."""
    seed = session.task.get("seed")
    return seed if isinstance(seed, int) else None


def score_info(steps: Sequence[str], played: Played[Any], model_seconds: float) -> dict[str, float | None]:
    """``reward_extra_info`` of a rollout; verl's means leave a None out.

    Args:
        steps: the step ids whose scores every rollout reports, so that all report the same ones.
        model_seconds: generating, over all attempts.
    """
    ids = [*steps, *sorted(set(played.scores) - set(steps))]
    return {
        **{f"score/{step}": played.scores.get(step) for step in ids},
        "attempts": played.attempts,
        "model_seconds": model_seconds,
        "env_seconds": played.env_seconds,
    }
