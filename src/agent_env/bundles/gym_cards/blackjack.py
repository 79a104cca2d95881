"""Blackjack against a dealer who draws below 17, from an endless deck (Sutton and Barto, example 5.1; Gymnasium)."""

from __future__ import annotations

import random
from typing import NamedTuple

from .game import Game
from .picture import Scene

_DECK: tuple[int, ...] = (*range(1, 10), 10, 10, 10, 10)
_STEPS = 15


class Total(NamedTuple):
    """What a hand counts; `soft` if an ace counts 11 in it."""

    points: int
    soft: bool


def total(hand: list[int]) -> Total:
    """An ace counts 11 as long as the hand stays within 21."""
    low = sum(hand)
    soft = 1 in hand and low + 10 <= 21
    return Total(low + 10 * soft, soft)


class Blackjack(Game):
    """Won with a higher total than the dealer's, or if the dealer goes over 21; a draw and a loss earn nothing."""

    actions = ("hit", "stand")

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.hand, self.dealer = [self._card(), self._card()], [self._card(), self._card()]
        self._steps = 0

    def draw(self) -> str:
        """The dealer's first card, or all of them at the end, and the player's hand."""
        dealer = self.dealer if self.over else self.dealer[:1]
        return f"dealer: {_names(dealer)}\nyou: {_names(self.hand)}\ntotal: {_words(total(self.hand))}"

    @property
    def state(self) -> str:
        """The dealer's cards and the total: by which cards it came about does not matter."""
        return f"{_names(self.dealer if self.over else self.dealer[:1])} / {_words(total(self.hand))}"

    @property
    def scene(self) -> Scene:
        """The dealer's cards above the player's, all but the first face down until the end."""
        dealer = self.dealer if self.over else [self.dealer[0], 0]
        return Scene((tuple(dealer), tuple(self.hand)), ("Dealer above, you below",))

    def play(self, action: str) -> float:
        """Take a card, or let the dealer play."""
        self._steps += 1
        if action == "hit":
            self.hand.append(self._card())
            self.over = total(self.hand).points > 21
            self.note = "You are over 21." if self.over else ""
        elif action == "stand":
            while total(self.dealer).points < 17:
                self.dealer.append(self._card())
            self._weigh()
        else:
            self.unknown()
        self.cut = not self.over and self._steps >= _STEPS
        return 1.0 if self.won else 0.0

    def _weigh(self) -> None:
        self.over = True
        mine, theirs = total(self.hand).points, total(self.dealer).points
        self.won = theirs > 21 or mine > theirs
        self.note = "You win." if self.won else "It is a draw." if mine == theirs else "The dealer wins."

    def _card(self) -> int:
        return self._rng.choice(_DECK)


def _names(hand: list[int]) -> str:
    return " ".join("A" if card == 1 else str(card) for card in hand)


def _words(counted: Total) -> str:
    return f"{counted.points}{' soft' if counted.soft else ''}"
