"""A rollout: a task played to its end, again on a new episode if its environment failed. Knows no trainer.

An attempt that lost its episode is a fresh start of the same task, never a continuation. The last error is never turned
into a reward: when every attempt failed, `RolloutFailed` says why, and the trainer leaves the rollout out.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agent_env.errors import InputError, Problem, RolloutFailed, SessionError
from agent_env.training.sessions import Ended, Session, Shared, opened

T = TypeVar("T")

Player = Callable[[Session], Awaitable[T]]
"""Plays an open session to its end (`Session.end_turn` or `Session.finish` returned `Ended`); returns what it made."""


@dataclass(frozen=True)
class Played(Generic[T]):
    """A rollout that was played and scored.

    Args:
        value: what the player returned in the attempt that counted.
        reward: of the episode.
        scores: by step id.
        attempts: how many episodes were begun, or waited for, in all: 1 if nothing failed.
        env_seconds: waiting for sessions, in resets, calls, turns' ends and scoring, over all attempts.
        failures: the errors of the attempts before the last.
    """

    value: T
    reward: float
    scores: Mapping[str, float]
    attempts: int
    env_seconds: float
    failures: tuple[SessionError, ...] = field(default=())


async def play(
    shared: Shared,
    split: str,
    index: int,
    player: Player[T],
    *,
    attempts: int = 3,
    reset_timeout: float | None = None,
    seed: int | None = None,
    waits_for_server: bool = True,
) -> Played[T]:
    """Play a task until an attempt succeeds.

    Args:
        split: of the task.
        index: of the task in its split.
        player: awaited once an attempt with a session that was just reset. It need not close the session.
        attempts: at most; 1 or more.
        reset_timeout: seconds from now in which sessions are waited for and attempts may start; the server's
            ``shared.reset_timeout`` if None.
        seed: of every attempt's episode; the task's own if None.
        waits_for_server: as in `sessions.opened`.

    Raises:
        RolloutFailed: every attempt failed, or the time for another one was up; holds all their errors.
        SessionError: one whose remedy is to stop (TokenRefused, NotATaskServer, EpisodeUnscored), at once.
        Exception: whatever the player raises of its own, at once.
    """
    if attempts < 1:
        raise InputError(Problem("attempts", f"expected 1 or more, got {attempts}"))
    seconds = shared.reset_timeout if reset_timeout is None else reset_timeout
    deadline = time.monotonic() + seconds
    failures: list[SessionError] = []
    env_seconds = 0.0
    while True:
        session: Session | None = None
        started = time.monotonic()
        try:
            async with opened(
                shared, split, index, seed=seed, waits_for_server=waits_for_server, deadline=deadline
            ) as session:
                value = await player(session)
                if session.error is not None:  # a player may not take a lost episode for an answer
                    raise session.error
                ended = _end(session)
        except SessionError as error:
            if error.remedy == "stop":
                raise
            failures.append(error)
        else:
            env_seconds += session.env_seconds
            return Played(value, ended.reward, ended.scores, len(failures) + 1, env_seconds, tuple(failures))
        env_seconds += time.monotonic() - started if session is None else session.env_seconds
        what = f"{split}[{index}]"
        if len(failures) >= attempts:
            raise RolloutFailed(f"{what}: all {attempts} attempts failed", failures) from failures[-1]
        if time.monotonic() >= deadline:
            message = f"{what}: failed, and the {seconds:g} s in which it could be played again are over"
            raise RolloutFailed(message, failures) from failures[-1]


def _end(session: Session) -> Ended:
    if session.ended is None:
        raise RuntimeError("the player returned before the episode ended: await Session.finish(reply)")
    return session.ended
