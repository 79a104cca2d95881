"""The environment: one action turns the agent, moves it, or does something with what is before it."""

from __future__ import annotations

import hashlib

from agent_env import Observation, Task, TextEnvironment

from .levels import make_world, state_of
from .view import described

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
"""In the order of Minigrid's numbers for them."""
DONE, FAILED, USED_UP = "The mission is accomplished.", "The mission has failed.", "No steps are left."


class BabyAI(TextEnvironment):
    """The world of the episode's seed, in ``task.env["level"]`` (see `levels.LEVELS`)."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.world = make_world(task.env["level"], seed, held_out=task.env["held_out"])
        self.steps_left = int(self.world.max_steps)
        self.success = False
        return self._observation(0.0)

    def step(self, action: str) -> Observation:
        """Do an action; one that there is not changes nothing and takes a step as well."""
        self.steps_left -= 1
        name = " ".join(action.split()).lower()
        if name not in ACTIONS:
            self.world.step_count += 1
            return self._observation(0.0, note=f"There is no such action: use {', '.join(ACTIONS)}.")
        _, reward, terminated, _, _ = self.world.step(ACTIONS.index(name))
        self.success = terminated and reward > 0
        note = DONE if self.success else FAILED if terminated else ""
        return self._observation(float(reward), terminated, note)

    def score(self, reply: str) -> float:
        """1 if the mission is accomplished, else 0."""
        return float(self.success)

    def _observation(self, reward: float, terminated: bool = False, note: str = "") -> Observation:
        truncated = not terminated and self.steps_left <= 0
        note = USED_UP if truncated else note
        text = described(self.world)
        return Observation(
            f"{text}\n{note}" if note else text,
            actions=ACTIONS,
            state=hashlib.sha256(state_of(self.world)).hexdigest()[:32],
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info={"success": self.success} if terminated or truncated else {},
        )
