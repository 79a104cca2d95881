"""Many plays of a bundle where its hosting has them run, several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_env import Bundle, Call, Episode, Observation, Reply, Task, Turn
from agent_env.checking.draw import drawn
from agent_env.demonstrator import Demonstrator, Play, play
from agent_env.hosting.engine import close_engines
from agent_env.hosting.host import host_for
from agent_env.tools import ToolResult


@dataclass(frozen=True)
class Came:
    """What a play came to."""

    task: str
    reward: float
    steps: int


class _Seeing(Episode):
    """An episode that knows what it offered last."""

    seen: Observation | None = None

    async def start(self) -> Observation | None:
        self.seen = await super().start()
        return self.seen

    async def call(self, name: str, arguments: Any) -> ToolResult:
        result = await super().call(name, arguments)
        self.seen = result.observation
        return result

    def at_random(self, turn: Turn, rng: random.Random, error_rate: float) -> Play:
        """Draws from the admissible actions until the environment's end, or calls of its tools if it names none."""
        if self.seen is None or not self.seen.actions:
            yield from drawn(self.bundle.toolset(self.task).tools, [])(turn, rng, error_rate)
            return
        while self.seen.actions and not self.seen.over:
            yield Call("act", {"action": rng.choice(self.seen.actions)})
        yield Reply("done")


async def many_plays(
    bundle: Bundle, tasks: Sequence[Task], player: Demonstrator | None, at_once: int = 8
) -> list[Came]:
    """Play each task once, by a player or, without one, at random. Raises EpisodeError if an environment fails."""
    host = host_for(bundle, at_once)
    await host.start()
    gate = asyncio.Semaphore(at_once)

    async def one(task: Task) -> Came:
        async with gate:
            episode = _Seeing(bundle, task, await host.open())
            try:
                ended = (await play(episode, player or episode.at_random, random.Random(task.id), 0.0)).ended
                return Came(task.id, ended.reward, episode.step_count - 1)
            finally:
                await episode.close()

    try:
        return await asyncio.gather(*(one(task) for task in tasks))
    finally:
        await host.close()
        close_engines()


def spread(tasks: Sequence[Task], count: int) -> list[Task]:
    """So many of the tasks, evenly spread; some several times if there are fewer."""
    return [tasks[index * len(tasks) // count] for index in range(count)]
