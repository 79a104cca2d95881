"""What both loops are told, and what they do with an open session and a rollout that was played."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

from agent_env.training.rollout import Played, Player, play
from agent_env.training.sessions import Session, Shared
from agent_env.training.verl.cpu.rollout import ROLLOUT
from agent_env.training.verl.row import Row
from agent_env.training.verl.seeds import generation_seed, group_seed

T = TypeVar("T")


@dataclass(frozen=True)
class LoopSettings:
    """What ``agent_loop.yaml`` tells either loop, beside what is verl's and what is one layout's alone.

    Args:
        url: of the task server.
        token_var: the environment variable that holds its token, read in the worker.
        token_file: the file that does, read in the worker. Neither for a server without one.
        attempts: episodes a rollout may begin.
        reset_timeout: seconds from the rollout's begin in which sessions are waited for and attempts may start; also
            what one reset may take.
        call_timeout: seconds for a tool call or a turn's end, with its scoring.
        connect_timeout: seconds for a connection.
        traces: folder that each rollout is recorded in (see `agent_env.training.traces`); None for no record.
        steps: the step ids whose scores every rollout reports, None for a step that its task does not have: verl's
            means leave a None out, and a key that only some rollouts had would break its batches.
        draw_seeds: splits of which each group of rollouts plays an episode of its own (see `seeds.group_seed`); those
            of other splits, which evaluations play, have the task's own seed.

    Raises:
        InputError: with every setting of the server that cannot be used.
    """

    url: str
    token_var: str | None = None
    token_file: str | None = None
    attempts: int = 3
    reset_timeout: float = 600.0
    call_timeout: float = 120.0
    connect_timeout: float = 10.0
    traces: str | None = None
    steps: Collection[str] = ()
    draw_seeds: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(str(step) for step in self.steps))  # YAML may read a number
        _ = self.shared

    @cached_property
    def shared(self) -> Shared:
        """The task server."""
        return Shared(
            url=self.url,
            token_var=self.token_var,
            token_file=self.token_file,
            connect_timeout=self.connect_timeout,
            call_timeout=self.call_timeout,
            reset_timeout=self.reset_timeout,
        )

    async def play(self, row: Row, row_fields: Mapping[str, Any], rollout: Any, player: Player[T]) -> Played[T]:
        """Play a row's task by `rollout.play`, which says what it raises.

        Args:
            row_fields: the row's, as verl passes them to a loop.
            rollout: verl's configuration of it.
        """
        seed = episode_seed(rollout, row, row_fields, self.draw_seeds)
        return await play(self.shared, row.split, row.index, player, attempts=self.attempts, seed=seed)

    def info(self, played: Played[Any], model_seconds: float) -> dict[str, float | None]:
        """``reward_extra_info`` of a rollout, with the same step ids for all; verl's means leave a None out.

        Args:
            model_seconds: generating, over all attempts.
        """
        ids = [*self.steps, *sorted(set(played.scores) - set(self.steps))]
        return {
            **{f"score/{step}": played.scores.get(step) for step in ids},
            "attempts": played.attempts,
            "model_seconds": model_seconds,
            "env_seconds": played.env_seconds,
        }


def taken(kind: type[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of `arguments` that are fields of the dataclass `kind`, taken out of them."""
    return {field.name: arguments.pop(field.name) for field in fields(kind) if field.name in arguments}


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
