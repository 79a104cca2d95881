"""What the built-in environments come to: scores of simple players, steps a second, memory of an episode, what is left.

``python benchmarks/environments.py NAME[:SPLIT]...`` prints rows of the table in docs/environments.md. Episodes run
where the bundle's ``hosting`` has them run on a server. Times are processor time of this process and of all that it
started.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import psutil

from agent_env import Bundle, Call, Episode, EpisodeError, Observation, Reply, Task, Turn, load_bundle
from agent_env.checking.draw import drawn
from agent_env.demonstrator import Demonstrator, Play
from agent_env.demonstrator import play as play_as
from agent_env.hosting.engine import close_engines
from agent_env.hosting.host import Host, host_for
from agent_env.tools import ToolResult

EPISODES = 100
AT_ONCE = 32
MOST_STEPS = 200
HEAD = """\
| bundle | split | demonstrator | random | reset, ms | step, ms | steps a second | MB an episode |
|---|---|---|---|---|---|---|---|"""


class Watched(Episode):
    """An episode that keeps the actions that it last offered, and counts its steps."""

    def __init__(self, bundle: Bundle, task: Task, handle: Any) -> None:
        super().__init__(bundle, task, handle)
        self.offered: tuple[str, ...] = ()
        self.over = False
        self.steps = 0

    async def start(self) -> Observation | None:
        seen = await super().start()
        self._look(seen)
        return seen

    async def call(self, name: str, arguments: Any) -> ToolResult:
        # What is called after the end costs nothing.
        self.steps += not self.over
        result = await super().call(name, arguments)
        self._look(result.observation)
        return result

    def _look(self, seen: Observation | None) -> None:
        if seen is not None:
            self.offered, self.over = tuple(seen.actions or ()), seen.over

    def at_random(self, turn: Turn, rng: random.Random, error_rate: float) -> Play:
        """Draws from the actions that are offered, or from the tools' schemas if none are."""
        if not self.offered:
            yield from drawn(self.bundle.toolset(self.task).tools, [])(turn, rng, error_rate)
            return
        words = re.findall(r"\w+", turn.prompt)
        while not self.over and self.steps < MOST_STEPS:
            action = re.sub("<[^<>]+>", lambda _: " ".join(rng.sample(words, 3)), rng.choice(self.offered))
            yield Call("act", {"action": action})
        yield Reply("done")


@dataclass
class Played:
    """What the episodes of a player came to; `seconds` of processor time for all of them."""

    rewards: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        mean = f"{statistics.mean(self.rewards):.3f}" if self.rewards else "none"
        return f"{mean}{f', {len(self.errors)} errors' if self.errors else ''}"


async def played(bundle: Bundle, host: Host, tasks: list[Task], player: Demonstrator | None) -> Played:
    """Plays of tasks, one after the other; without a player, at random."""
    result = Played()
    began = cpu_seconds()
    for number, task in enumerate(tasks):
        episode = Watched(bundle, task, await host.open())
        try:
            ended = (await play_as(episode, player or episode.at_random, random.Random(number), 0.0)).ended
            result.rewards.append(ended.reward)
        except EpisodeError as error:
            result.errors.append(f"{task.id}: {error}")
        finally:
            await episode.close()
        result.steps += episode.steps
    result.seconds = cpu_seconds() - began
    return result


async def warmed_up(bundle: Bundle, task: Task) -> None:
    """One play, for what is made once for all episodes."""
    host = host_for(bundle, 1)
    await host.start()
    await played(bundle, host, [task], None)
    await host.close()


async def reset_seconds(bundle: Bundle, host: Host, tasks: list[Task]) -> float:
    """Processor time to open an episode, reset and close it."""
    began = cpu_seconds()
    for task in tasks:
        episode = Watched(bundle, task, await host.open())
        await episode.start()
        await episode.close()
    return (cpu_seconds() - began) / len(tasks)


async def megabytes(bundle: Bundle, host: Host, tasks: list[Task]) -> float:
    """By how much `AT_ONCE` open episodes, a step into each, make this process and its children grow, for one."""
    before = memory()
    episodes = []
    for number, task in enumerate(tasks):
        episode = Watched(bundle, task, await host.open())
        episodes.append(episode)
        await episode.start()
        move = next(episode.at_random(episode.turn, random.Random(number), 0.0))
        if isinstance(move, Call):
            await episode.call(move.name, move.arguments)
    grown = memory() - before
    for episode in episodes:
        await episode.close()
    return grown / len(episodes) / 2**20


def tree() -> list[psutil.Process]:
    """This process and those below it."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def memory() -> int:
    """Bytes of the tree, what processes share counted once."""
    return sum(process.memory_full_info().pss for process in tree() if process.is_running())


def cpu_seconds() -> float:
    """Processor time of the tree, and of what ended in it."""
    return sum(sum(process.cpu_times()[:4]) for process in tree() if process.is_running())


async def left_behind(threads: int) -> list[str]:
    """Processes, and threads beyond that number, once they had two seconds to end."""
    for _ in range(20):
        children = psutil.Process().children(recursive=True)
        if not children and threading.active_count() <= threads:
            break
        await asyncio.sleep(0.1)
    extra = [thread.name for thread in threading.enumerate()][threads:]
    return [*(f"process {child.pid}" for child in children), *(f"thread {name}" for name in extra)]


async def row(wanted: str) -> str:
    """The row of a bundle and a split, its first one to evaluate on if none is named; errors are printed to stderr."""
    name, _, split = wanted.partition(":")
    bundle = load_bundle(name)
    split = split or next((split for split in bundle.splits if split.startswith("eval")), next(iter(bundle.splits)))
    every = bundle.tasks(split)
    tasks = [every[i * len(every) // EPISODES] for i in range(EPISODES)]
    await warmed_up(bundle, tasks[0])
    threads = threading.active_count()
    host = host_for(bundle, AT_ONCE + 1)
    await host.start()
    reset = await reset_seconds(bundle, host, tasks)
    shown, shown_by = "none", None
    if bundle.demonstrator is not None:
        shown_by = await played(bundle, host, tasks, bundle.demonstrator)
        shown = str(shown_by)
    drawn_at_random = await played(bundle, host, tasks, None)
    grown = await megabytes(bundle, host, tasks[:AT_ONCE])
    await host.close()
    close_engines()
    for error in [*(shown_by.errors if shown_by else []), *drawn_at_random.errors, *await left_behind(threads)]:
        print(f"{name}: {error}", file=sys.stderr)
    cost = "– | –"
    if drawn_at_random.steps:
        step = (drawn_at_random.seconds - EPISODES * reset) / drawn_at_random.steps
        cost = f"{1e3 * step:.2f} | {1 / step:,.0f}"
    return f"| `{name}` | {split} | {shown} | {drawn_at_random} | {1e3 * reset:.1f} | {cost} | {max(0.0, grown):.2f} |"


async def main(names: list[str]) -> None:
    print(HEAD)
    for wanted in names:
        print(await row(wanted), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: python {os.path.relpath(__file__)} NAME[:SPLIT]...")
    asyncio.run(main(sys.argv[1:]))
