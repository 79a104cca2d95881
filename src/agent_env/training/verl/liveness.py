"""Whether the processes that play rollouts are alive.

verl hands a batch of prompts to its agent loop workers and waits for what they write. If one of them dies (the kernel's
out-of-memory killer, a machine that goes), its rollouts never end, and verl waits for ever.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from agent_env.errors import AgentEnvError

EVERY = 5.0
"""Seconds between two looks."""


class WorkerDied(AgentEnvError):
    """A process that plays rollouts is gone, and what it played with it."""


class Workers:
    """Ray's actors that play rollouts. A look costs a call to each that is never waited for.

    Args:
        workers: verl's ``AgentLoopManager.agent_loop_workers``.
    """

    def __init__(self, workers: Sequence[Any]) -> None:
        self._workers = list(workers)
        self._asked: dict[Any, int] = {}
        self._looked = time.monotonic()

    def check(self) -> None:
        """Look, if `EVERY` seconds have passed since the last look. Raises WorkerDied."""
        if time.monotonic() < self._looked + EVERY:
            return
        self._looked = time.monotonic()
        if self._asked:
            # A worker that is busy does not answer, one that has died does so at once, by Ray.
            answered, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)
            for answer in answered:
                self._read(answer, self._asked.pop(answer))
        asked = set(self._asked.values())
        for number, worker in enumerate(self._workers):
            if number not in asked:
                self._asked[worker.__ray_ready__.remote()] = number

    def _read(self, answer: Any, number: int) -> None:
        try:
            ray.get(answer)
        except RayActorError as error:
            what = f"agent loop worker {number} of {len(self._workers)} has died; its rollouts would never end"
            reason = " ".join(str(error).split())
            raise WorkerDied(f"{what}: the same command goes on from the last checkpoint ({reason})") from None
