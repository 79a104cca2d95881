"""How well simple players do on the text bundles' held-out tasks, and what a step costs.

Prints the tables of docs/text_environments.md. Players are the demonstrator at several error rates, and one that draws
each action from the admissible ones.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from agent_env import Bundle, Call, Episode, Reply, Task, load_bundle
from agent_env.demonstrator import Play
from agent_env.demonstrator import play as play_as
from agent_env.hosting.local import LocalHandle

SPLITS = {
    "key_door": ("eval", "eval-mixed"),
    "sokoban": ("eval", "eval-mixed"),
    "gym_cards": ("eval-number_line", "eval-ez_points", "eval-points24", "eval-blackjack"),
}
ERROR_RATES = (0.0, 0.1, 0.3)


class Watched(Episode):
    """An episode that keeps the actions it offers, and what its steps were worth."""

    def __init__(self, bundle: Bundle, task: Task) -> None:
        super().__init__(bundle, task, LocalHandle(bundle))
        self.rewards: list[float] = []
        self.over = False

    async def start(self):  # type: ignore[no-untyped-def]
        seen = await super().start()
        self.actions = seen.actions if seen is not None else ()
        return seen

    async def call(self, name, arguments):  # type: ignore[no-untyped-def]
        result = await super().call(name, arguments)
        seen = result.observation
        assert seen is not None
        self.actions, self.over = seen.actions, seen.over
        self.rewards.append(seen.reward)
        return result


async def mean_of(bundle: Bundle, split: str, error_rate: float | None) -> tuple[float, float, float]:
    """Mean success, steps and summed step reward over a split; an error rate of None plays at random."""
    rows = []
    for task in bundle.tasks(split):
        episode = Watched(bundle, task)

        def at_random(turn, rng, _, episode=episode) -> Play:  # type: ignore[no-untyped-def]
            while not episode.over:
                yield Call("act", {"action": rng.choice(episode.actions)})
            yield Reply("done")

        player = at_random if error_rate is None else bundle.demonstrator
        assert player is not None
        played = await play_as(episode, player, random.Random(task.id), error_rate or 0.0)
        rows.append((played.ended.reward, len(episode.rewards), sum(episode.rewards)))
        await episode.close()
    success, steps, reward = zip(*rows, strict=True)
    return statistics.mean(success), statistics.mean(steps), statistics.mean(reward)


def microseconds(bundle: Bundle, split: str) -> tuple[float, float]:
    """CPU time of one reset and of one step, in-process, over a split with actions drawn at random."""
    rng = random.Random(0)
    resets, steps = [], []
    for task in bundle.tasks(split):
        environment = bundle.environment()
        began = time.process_time()
        seen = environment.reset(task, task.seed)
        resets.append(time.process_time() - began)
        while not seen.over:
            action = rng.choice(seen.actions)
            began = time.process_time()
            seen = environment.step(action)  # type: ignore[attr-defined]
            steps.append(time.process_time() - began)
    return 1e6 * statistics.mean(resets), 1e6 * statistics.mean(steps)


async def main() -> None:
    print("| tasks | player | success | steps | summed step reward |\n|---|---|---|---|---|")
    costs = []
    for name, splits in SPLITS.items():
        bundle = load_bundle(name)
        for split in splits:
            costs.append((f"{name} {split}", *microseconds(load_bundle(name), split)))
            for rate in (None, *reversed(ERROR_RATES)):
                success, steps, reward = await mean_of(bundle, split, rate)
                player = "random" if rate is None else f"demonstrator, error rate {rate:g}"
                print(f"| `{name}` `{split}` | {player} | {success:.3f} | {steps:.1f} | {reward:.2f} |", flush=True)
    print("\n| tasks | reset, µs | step, µs |\n|---|---|---|")
    for tasks, reset, step in costs:
        print(f"| {tasks} | {reset:.0f} | {step:.1f} |")


if __name__ == "__main__":
    asyncio.run(main())
