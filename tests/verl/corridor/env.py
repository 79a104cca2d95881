"""A corridor: actions whose failures, delays and lengths the tests choose."""

import asyncio
import collections

from agent_env import Observation, TextEnvironment

PLAYED = collections.Counter()
"""Episodes begun, by task, in this server."""


class Corridor(TextEnvironment):
    """``task.env`` may say: `length` (3), `limit` of steps, `lost` episodes, `words` of text, `named` actions."""

    def reset(self, task, seed):
        PLAYED[task.id] += 1
        self.env, self.episode = task.env, PLAYED[task.id]
        self.at, self.taken, self.score_now = 0, 0, 0.0
        return self.seen("You wake up.")

    async def step(self, action):
        self.taken += 1
        if action == "break" and self.episode <= self.env.get("lost", 0):
            raise RuntimeError(f"the floor gave way in episode {self.episode}")
        if action == "nap":
            await asyncio.sleep(30)
        self.at = max(0, self.at + {"east": 1, "west": -1}.get(action, 0))
        return self.seen(f"You did {action}.")

    def seen(self, text):
        length, limit = self.env.get("length", 3), self.env.get("limit", 100)
        won = self.at >= length
        self.score_now = float(won)
        cut = not won and self.taken >= limit
        words = " ".join(f"stone{n}" for n in range(self.env.get("words", 0)))
        return Observation(
            f"{text} You are in cell {self.at} of {length}.{' ' if words else ''}{words}",
            actions=("east", "west", "wait here") if self.env.get("named", True) else None,
            state=f"cell {self.at}",
            reward=(1.0 if won else 0.0) - 0.125 * bool(self.taken),
            terminated=won,
            truncated=cut,
            info={"success": won} if (won or cut) and self.env.get("says", True) else {},
        )

    def score(self, reply):
        return self.score_now
