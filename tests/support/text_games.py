"""Plays of a text bundle's tasks, for its tests."""

from __future__ import annotations

import hashlib
import random

import numpy as np

from agent_env import Bundle, Episode, Observation, Task
from agent_env.demonstrator import Demonstration, play
from agent_env.hosting.local import LocalHandle
from agent_env.pictures import opened


async def demonstrated(bundle: Bundle, task: Task, error_rate: float, seed: int = 0) -> Demonstration:
    """The demonstrator's play of `task`."""
    episode = Episode(bundle, task, LocalHandle(bundle))
    try:
        return await play(episode, bundle.demonstrator, random.Random(f"{task.id} {seed}"), error_rate)
    finally:
        await episode.close()


async def success_rate(bundle: Bundle, split: str, error_rate: float, most: int = 200) -> float:
    """The mean reward of the demonstrator over the first tasks of a split."""
    rewards = [(await demonstrated(bundle, task, error_rate)).ended.reward for task in bundle.tasks(split)[:most]]
    return sum(rewards) / len(rewards)


async def played(bundle: Bundle, task: Task, *actions: str, seed: int | None = None) -> list[Observation]:
    """What is seen at the start, and after each of `actions`."""
    episode = Episode(bundle, task, LocalHandle(bundle), seed)
    seen = [await episode.start()]
    seen += [(await episode.call("act", {"action": action})).observation for action in actions]
    await episode.close()
    return seen


def first(bundle: Bundle, task: Task) -> Observation:
    """What the environment shows first."""
    return bundle.environment().reset(task, task.seed)


def fingerprint(bundle: Bundle) -> str:
    """A hash of what every task in text shows first: whoever changes it makes another environment."""
    digest = hashlib.sha256()
    for split, tasks in bundle.splits.items():
        for task in () if split.endswith("-pictures") else tasks:
            digest.update(f"{task.id}\n{first(bundle, task).text}\n".encode())
    return digest.hexdigest()[:16]


def pixels(seen: Observation) -> np.ndarray:
    """The one picture that was seen, ``(height, width, 3)``."""
    (url,) = seen.images
    return np.asarray(opened(url))
