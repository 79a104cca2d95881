"""Knows which product the goal was made of: searches for its name, chooses the options and buys it.

Errs by a random click of those that the page offers, but no purchase. Goes on from wherever that led.
"""

from __future__ import annotations

import json
import random

import msgspec

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from . import pages
from .catalogue import shop
from .env import STEPS
from .product import Goal
from .searching import words
from .session import Session


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Shop; each action is drawn anew, at random, with probability `error_rate`."""
    (given,) = yield Given()
    session = Session(shop(), msgspec.convert(json.loads(given)["env"]["goal"], Goal))
    for _ in range(STEPS):
        clicks = [what for what in session.page.clickables if what not in (pages.SEARCH, pages.BUY)]
        action = f"click[{rng.choice(clicks)}]" if clicks and rng.random() < error_rate else _best(session)
        session.act(action)
        yield Call("act", {"action": action})
        if session.bought is not None:
            break
    yield Reply("done")


def _best(session: Session) -> str:
    """The next action on the shortest way to the purchase."""
    goal = session.goal
    match session.page.kind:
        case "start":
            return f"search[{' '.join(words(goal.name))}]"
        case "results":
            return f"click[{_towards(session)}]"
        case "item" if session.product is not None and session.product.asin == goal.asin:
            missing = [value for value in goal.options if value not in session.options.values()]
            return f"click[{missing[0] if missing else pages.BUY}]"
        case _:
            return f"click[{pages.PREVIOUS}]"


def _towards(session: Session) -> str:
    """What to click among the results: the product, the page nearer to it, or the way back if it is not there."""
    asins = [product.asin for product in session.found]
    if session.goal.asin not in asins:
        return pages.BACK
    number = asins.index(session.goal.asin) // pages.PER_PAGE + 1
    if number == session.number:
        return session.goal.asin.lower()
    return pages.NEXT if number > session.number else pages.PREVIOUS
