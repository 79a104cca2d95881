"""Plays each game as it should be: straight to the target, by a formula that comes out, by basic strategy.

It plays a game of its own beside, from what the environment was given, and looks at that: what is shown as a picture
it plays as well. Errs by an admissible action at random.
"""

from __future__ import annotations

import json
import random

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .blackjack import Blackjack, Total
from .env import new_game
from .formula import solutions
from .number_line import NumberLine
from .points import BLANK, FACES, moves, worth

_FACES = {name: card for card, name in FACES.items()}


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one game; each action is drawn anew, at random, with probability `error_rate`."""
    (given,) = yield Given()
    told = json.loads(given)
    game = new_game(told["env"]["game"], random.Random(told["seed"]), held_out=told["env"]["held_out"])
    while not (game.over or game.cut):
        best, actions = _choice(game.draw())
        action = rng.choice(actions) if rng.random() < error_rate else best
        yield Call("act", {"action": action})
        game.play(action)
    yield Reply("done")


def _choice(seen: str) -> tuple[str, tuple[str, ...]]:
    """The best action, and all there are."""
    said = {name: words.split() for name, _, words in (line.partition(":") for line in seen.splitlines())}
    if "target" in said:
        return ("right" if int(said["target"][0]) > int(said["current"][0]) else "left"), NumberLine.actions
    if "dealer" in said:
        points, *soft = said["total"]
        dealer = said["dealer"][0]
        counted = Total(int(points), bool(soft))
        return ("hit" if _hits(counted, 11 if dealer == "A" else int(dealer)) else "stand"), Blackjack.actions
    numbers = [worth(_FACES[card]) if card in _FACES else int(card) for card in said["cards"]]
    formula = [symbol for symbol in said["formula"] if symbol != BLANK]
    target, signs = (12, "+*") if len(numbers) == 2 else (24, "+-*/()")
    begun = len(formula)
    for solution in solutions(tuple(sorted(numbers)), target, signs.removesuffix("()")):
        if [*solution[:begun]] == formula:
            return ([*solution, "="][begun]), moves(numbers, formula, signs)
    return "=", moves(numbers, formula, signs)


def _hits(hand: Total, dealer: int) -> bool:
    """Basic strategy without doubling and splitting; the dealer's ace is 11."""
    if hand.soft:
        return hand.points < 18 or (hand.points == 18 and dealer >= 9)
    if 4 <= dealer <= 6:
        return hand.points < 12
    return hand.points < (13 if dealer <= 3 else 17)
