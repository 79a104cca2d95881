"""Number line: walk from one number to another."""

from __future__ import annotations

import random

from .game import Game
from .picture import Scene

_LAST = 5
_STEPS = 10


class NumberLine(Game):
    """Start and goal are two different numbers of 0..5. Steps that come no closer to the goal cost 1."""

    actions = ("left", "right")

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.goal, self.current = rng.sample(range(_LAST + 1), 2)
        self._steps = 0

    def draw(self) -> str:
        """Goal and position."""
        return f"target: {self.goal}\ncurrent: {self.current}"

    @property
    def scene(self) -> Scene:
        """Goal and position, in words."""
        return Scene((), (f"Target: {self.goal}", f"Current: {self.current}"))

    def play(self, action: str) -> float:
        """A step left or right, clamped at the ends."""
        self._steps += 1
        before = abs(self.goal - self.current)
        if action in self.actions:
            self.current = min(max(self.current + (1 if action == "right" else -1), 0), _LAST)
        else:
            self.unknown()
        self.over = self.won = self.current == self.goal
        self.cut = not self.over and self._steps >= _STEPS
        if self.won:
            self.note = "The target is reached."
            return 1.0
        return 0.0 if abs(self.goal - self.current) < before else -1.0
