"""What a generation draws, made a matter of which generation it is, and of nothing else.

A rollout server that is asked by many rollouts at once sees their requests in an order that differs from run to run. So
each request brings a seed of its own, made of the run's seed and of the request's place in the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agent_env.training.verl.row import Row


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
    return int.from_bytes(hashlib.blake2b(repr(place).encode(), digest_size=8).digest(), "little") >> 1
