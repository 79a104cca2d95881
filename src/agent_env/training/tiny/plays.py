"""The demonstrator's plays of a split, in this process."""

from __future__ import annotations

import asyncio
import random

from agent_env.bundle import Bundle
from agent_env.demonstrator import Demonstration, play
from agent_env.episode import Episode
from agent_env.hosting.local import LocalHandle
from agent_env.task import Task
from agent_env.training.tasks import Progress


def plays(
    bundle: Bundle, split: str, *, times: int, error_rate: float, seed: int, progress: Progress
) -> list[Demonstration]:
    """The demonstrator's plays of every task of a split, `times` each. The same seed gives the same plays.

    Raises:
        InputError: the bundle has no demonstrator, no such split, or no task in it.
        EpisodeError: the environment or the demonstrator failed.
    """
    tasks = bundle.to_demonstrate(split)

    async def play_all() -> list[Demonstration]:
        rng, played = random.Random(f"plays {seed}"), []
        for number in range(times):
            for place, task in enumerate(tasks):
                played.append(await _played(bundle, task, rng, error_rate))
                progress("demonstrating", number * len(tasks) + place + 1, times * len(tasks))
        return played

    return asyncio.run(play_all())


async def _played(bundle: Bundle, task: Task, rng: random.Random, error_rate: float) -> Demonstration:
    assert bundle.demonstrator is not None
    episode = Episode(bundle, task, LocalHandle(bundle))
    try:
        return await play(episode, bundle.demonstrator, rng, error_rate)
    finally:
        await episode.close()
