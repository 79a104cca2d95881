"""EZ points and 24 points: write a formula with every card that comes to 12, or to 24."""

from __future__ import annotations

import random
import zlib
from textwrap import wrap

from .formula import can_make, value
from .game import Game
from .picture import Scene

FACES = {11: "J", 12: "Q", 13: "K"}
REWARD = 10.0
BLANK = "_"


def worth(card: int) -> int:
    """What a card 1..13 counts: the faces 10."""
    return min(card, 10)


class Points(Game):
    """Symbols are appended to a formula until ``=``, which ends the game.

    What is no symbol, or a number that no unused card has, is appended as a blank: it takes a place and means nothing.

    Args:
        cards: 1..13 each.
        target: to come to.
        signs: that a formula may have beside numbers.
        most: symbols that it may have.
    """

    def __init__(self, cards: list[int], target: int, signs: str, most: int) -> None:
        super().__init__()
        self.cards, self.target, self.signs, self._most = cards, target, signs, most
        self.formula: list[str] = []

    @property
    def actions(self) -> tuple[str, ...]:
        """The numbers of unused cards, and the signs."""
        return moves([worth(card) for card in self.cards], self.formula, self.signs)

    def draw(self) -> str:
        """Cards and formula."""
        cards = " ".join(FACES.get(card, str(card)) for card in self.cards)
        return f"cards: {cards}\nformula: {' '.join(self.formula)}".rstrip()

    @property
    def scene(self) -> Scene:
        """The cards, and the formula under them."""
        return Scene((tuple(self.cards),), tuple(wrap(f"Formula: {' '.join(self.formula)}", width=26)))

    def play(self, action: str) -> float:
        """Append a symbol, or weigh the formula."""
        if action == "=":
            self.over = True
            symbols = [symbol for symbol in self.formula if symbol != BLANK]
            unused = unused_numbers([worth(card) for card in self.cards], symbols)
            self.won = not unused and value(symbols) == self.target
            self.note = f"It comes to {self.target}." if self.won else f"It does not come to {self.target}."
            return REWARD if self.won else 0.0
        if action not in self.actions:
            self.unknown()
            action = BLANK
        self.formula.append(action)
        self.cut = len(self.formula) > self._most
        return 0.0


def unused_numbers(numbers: list[int], symbols: list[str]) -> list[int]:
    """`numbers` without those that are in `symbols` already."""
    left = list(numbers)
    for symbol in symbols:
        if symbol.isdecimal():
            left.remove(int(symbol))
    return left


def moves(numbers: list[int], symbols: list[str], signs: str) -> tuple[str, ...]:
    """The admissible actions: unused numbers, signs, and the end."""
    return (*map(str, sorted({*unused_numbers(numbers, symbols)})), *signs, "=")


def ez_points(rng: random.Random) -> Points:
    """Two cards that make 12 as a sum or, half of the time where the first divides 12, as a product."""
    first = rng.randint(2, 13)
    counts = worth(first)
    other = 12 // counts if 12 % counts == 0 and rng.random() < 0.5 else 12 - counts
    cards = [first, other]
    rng.shuffle(cards)
    return Points(cards, 12, "+*", most=5)


def points24(rng: random.Random, *, held_out: bool) -> Points:
    """Four cards that can make 24. One hand in five, by a checksum of what its cards count, is held out."""
    while True:
        cards = [rng.randint(1, 13) for _ in range(4)]
        numbers = tuple(sorted(map(worth, cards)))
        if (zlib.crc32(repr(numbers).encode()) % 5 == 0) == held_out and can_make(numbers, 24):
            return Points(cards, 24, "+-*/()", most=20)
