"""The environment: plays the game that the task names."""

from __future__ import annotations

import random

from agent_env import Observation, Task, TextEnvironment

from .blackjack import Blackjack
from .game import Game
from .number_line import NumberLine
from .picture import render
from .points import ez_points, points24

USED_UP = "No steps are left."


class GymCards(TextEnvironment):
    """``task.env["game"]``: number_line, ez_points, points24 or blackjack, drawn by the episode's seed.

    With ``task.env["pictures"]`` it is shown as a picture, and the text holds what there is to say beside it.
    """

    def reset(self, task: Task, seed: int) -> Observation:
        self.game = new_game(task.env["game"], random.Random(seed), held_out=task.env["held_out"])
        self.pictures = bool(task.env.get("pictures"))
        return self._observation(0.0)

    def step(self, action: str) -> Observation:
        """Do an action; one that there is not, takes a step as well."""
        self.game.note = ""
        return self._observation(self.game.play(action.strip().lower()))

    def score(self, reply: str) -> float:
        """1 for a success, else 0."""
        return float(self.game.won)

    def _observation(self, reward: float) -> Observation:
        game = self.game
        note = USED_UP if game.cut else game.note
        shown = "" if self.pictures else game.draw()
        return Observation(
            f"{shown}\n{note}".strip("\n") if note else shown,
            images=[render(game.scene)] if self.pictures else (),
            actions=game.actions,
            state=game.state,
            reward=reward,
            terminated=game.over,
            truncated=game.cut,
            info={"success": game.won} if game.over or game.cut else {},
        )


def new_game(name: str, rng: random.Random, *, held_out: bool) -> Game:
    """The game of a name, drawn by `rng`. Raises ValueError if there is none of the name."""
    match name:
        case "number_line":
            return NumberLine(rng)
        case "ez_points":
            return ez_points(rng)
        case "points24":
            return points24(rng, held_out=held_out)
        case "blackjack":
            return Blackjack(rng)
    raise ValueError(f"game: expected number_line, ez_points, points24 or blackjack, got {name!r}")
