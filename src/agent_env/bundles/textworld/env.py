"""The environment: one command of the player a step, in the game's own words."""

from __future__ import annotations

from agent_env import Observation, Task, TextEnvironment

from .game import Game, Seen

WON = 10.0
STEPS = 50


class TextWorld(TextEnvironment):
    """The game of ``task.env``. Nothing in it is drawn: the seed of an episode changes nothing."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.steps = 0
        self.game = Game(task.env)
        return self._observation(self.game.start())

    def step(self, action: str) -> Observation:
        """Do a command; one that the game does not understand takes a step as well."""
        self.steps += 1
        return self._observation(self.game.do(" ".join(action.lower().split())))

    def score(self, reply: str) -> float:
        """1 if the quest is done, else 0."""
        return float(self.won)

    def close(self) -> None:
        """Let go of the engine."""
        if hasattr(self, "game"):
            self.game.close()

    def _observation(self, seen: Seen) -> Observation:
        self.won = seen.won
        terminated = seen.won or seen.lost
        truncated = not terminated and self.steps >= STEPS
        return Observation(
            seen.text,
            actions=seen.commands,
            state=seen.around,
            reward=WON if seen.won else 0.0,
            terminated=terminated,
            truncated=truncated,
            info={"success": seen.won} if terminated or truncated else {},
        )
