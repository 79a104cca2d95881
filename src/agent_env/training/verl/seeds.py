"""Seeds made of a run's seed and of a place in the run, and of nothing else, so that a run repeats.

A rollout server that is asked by many rollouts at once sees their requests in an order that differs from run to run. So
each request brings a seed of its own. And a training plays a task again and again: where its bundle allows it, each
group of rollouts gets an episode of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agent_env.training.verl.row import Row

DRAWN = 2**40
"""Drawn seeds of episodes are this and above, and below twice this: no task's own seed, unless an author goes there."""


def generation_seed(run: int, row: Row, fields: Mapping[str, Any], *, attempt: int, generation: int) -> int:
    """The seed of one request, from 0 to 2**63 - 1; requests that differ in anything named here differ in it.

    Args:
        run: seed of the run.
        row: what is played.
        fields: the row's fields as verl passes them to a loop: ``global_steps`` and ``session_id`` (which of a task's
            rollouts it is) count, where they are there. ``uid``, which verl makes at random, does not.
        attempt: at the rollout, from 1: another attempt is another sample.
        generation: of the attempt, from 0.
    """
    step, session = (int(fields[key]) if key in fields else None for key in ("global_steps", "session_id"))
    place = (run, step, row.split, row.index, session, attempt, generation)
    return _number(place) >> 1


def group_seed(run: int, row: Row, fields: Mapping[str, Any]) -> int:
    """The seed of the episodes of one group: `DRAWN` plus 40 bits of a hash of run, training step, split and task.

    All rollouts of a task in a training step share it, and so do their replays. Another step, and with it another
    epoch, has another one, and so has another task.

    Args:
        run: seed of the run.
        row: what is played.
        fields: the row's fields as verl passes them to a loop, ``global_steps`` among them.
    """
    return DRAWN + (_number((run, int(fields["global_steps"]), row.split, row.index)) >> 24)


def _number(place: tuple[Any, ...]) -> int:
    """64 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(repr(place).encode(), digest_size=8).digest(), "little")
