"""The environment: one command of the household a step, in the engine's own words."""

from __future__ import annotations

import os

from agent_env import Observation, Task, TextEnvironment

from .game import Game, Seen

WON = 10.0
STEPS = 50
STATE = "AGENT_ENV_ALFWORLD_STATE"
"""Environment variable: ``inventory`` adds what is carried to the key of a state."""


class Alfworld(TextEnvironment):
    """The game of ``task.env``. Nothing in it is drawn: the seed of an episode changes nothing."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.inventory = _inventory_counts()
        self.type = task.turns[0].id
        self.steps = 0
        self.game = Game.of(task.env)
        return self._observation(self.game.start())

    def step(self, action: str) -> Observation:
        """Do a command; one that is not admissible changes nothing and takes a step as well."""
        self.steps += 1
        return self._observation(self.game.do(" ".join(action.lower().split())))

    def score(self, reply: str) -> float:
        """1 if the goal is reached, else 0."""
        return float(self.won)

    def close(self) -> None:
        """Let go of the engine."""
        if hasattr(self, "game"):
            self.game.close()

    def _observation(self, seen: Seen) -> Observation:
        self.won = seen.won
        truncated = not seen.won and self.steps >= STEPS
        carried = f"\nYou are carrying: {self.game.inventory()}." if self.inventory else ""
        return Observation(
            seen.text,
            actions=seen.commands,
            state=seen.text + carried,
            reward=WON if seen.won else 0.0,
            terminated=seen.won,
            truncated=truncated,
            info={"success": seen.won, "type": self.type} if seen.won or truncated else {},
        )


def _inventory_counts() -> bool:
    chosen = os.environ.get(STATE, "")
    if chosen not in ("", "inventory"):
        raise ValueError(f"{STATE}: expected inventory or nothing, got {chosen!r}")
    return bool(chosen)
