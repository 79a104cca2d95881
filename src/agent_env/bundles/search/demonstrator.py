"""Searches as the question was made, hop by hop, and reads the answer; errs by answering with another word it saw."""

from __future__ import annotations

import functools
import random
import re
from pathlib import Path

from agent_env import Call, Reply, Turn
from agent_env.demonstrator import Play
from agent_env.install.needs import official_data

from .made import made_questions
from .passages import Passage, read_shown
from .solving import Solver

NOT_FOUND = "I do not know."


@functools.cache
def _solver() -> Solver:
    official = official_data(Path(__file__).parent)
    return Solver([] if official else made_questions().countries)


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one question. One that was not made here is searched for as it stands, and answered by a title."""
    solving = _solver().solve(turn.prompt)
    seen: list[Passage] = []
    answers: tuple[str, ...] = ()
    try:
        query = next(solving)
        while True:
            (text,) = yield Call("search", {"query": query})
            seen = read_shown(text)
            query = solving.send(seen)
    except StopIteration as end:
        answers = end.value
    if not seen:
        (text,) = yield Call("search", {"query": turn.prompt})
        seen = read_shown(text)
        answers = tuple(passage.title for passage in seen)
    others = [word for passage in seen for word in re.findall(r"\w+", passage.whole) if word not in answers]
    if others and rng.random() < error_rate:
        yield Reply(rng.choice(others))
    else:
        yield Reply(answers[0] if answers else NOT_FOUND)
