"""What the four games have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .picture import Scene


class Game(ABC):
    """One play of a game.

    Attributes:
        over: whether the game came to an end of its own.
        cut: whether it was stopped at a limit.
        won: whether that end is a success.
        note: a line for the player about the last action; "" if there is nothing to say.
    """

    def __init__(self) -> None:
        self.over = self.cut = self.won = False
        self.note = ""

    @property
    @abstractmethod
    def actions(self) -> tuple[str, ...]:
        """The admissible actions."""

    @abstractmethod
    def draw(self) -> str:
        """What the player sees."""

    @property
    @abstractmethod
    def scene(self) -> Scene:
        """What the player sees, as a picture shows it."""

    @property
    def state(self) -> str:
        """What equal states share."""
        return self.draw()

    @abstractmethod
    def play(self, action: str) -> float:
        """Do an action, lower case and without space around it; returns its reward."""

    def unknown(self) -> None:
        """Say that the action was none."""
        self.note = f"There is no such action: use {', '.join(self.actions)}."
