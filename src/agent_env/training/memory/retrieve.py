"""A memory of the past steps whose observations are nearest to the current one."""

from __future__ import annotations

import re
from typing import Any

from agent_env.extras import imported
from agent_env.training.memory.base import SEPARATOR, PastStep, Size, told

_WORD = re.compile(r"\w+|[^\w\s]")
"""Signs count as words: maps and boards are made of them."""


def library() -> Any:
    """bm25s, which only this memory needs, and which takes a while to import. Raises MissingExtra without it."""
    return imported("bm25s", "verl")


class Retrieve:
    """The `steps` past steps nearest to the current observation by BM25 (Robertson and Zaragoza 2009, Lucene's form).

    Of equally near ones the later are nearer. They are told in the order they were played.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._past: list[PastStep] = []
        self._words: list[list[str]] = []

    def add(self, past: PastStep) -> None:
        """Keep it."""
        self._past.append(past)
        self._words.append(_words(past.observation))

    def render(self, observation: str, budget: int, size: Size) -> str:
        """The nearest steps; the farthest of them give way to the budget."""
        near = self._nearest(observation)
        while near:
            text = SEPARATOR.join(told(self._past[place]) for place in sorted(near))
            if size(text) <= budget:
                return text
            near.pop()
        return ""

    def _nearest(self, observation: str) -> list[int]:
        """Places of the nearest steps, nearest first."""
        places = range(len(self._past))
        if not self._past:
            return []
        scores = self._scores(_words(observation))
        return sorted(places, key=lambda place: (-scores[place], -place))[: self._steps]

    def _scores(self, query: list[str]) -> list[float]:
        index = library().BM25(method="lucene")
        known = {word for words in self._words for word in words}
        asked = [word for word in query if word in known]
        if not asked:
            return [0.0] * len(self._words)
        index.index(self._words, show_progress=False)
        return [float(score) for score in index.get_scores(asked)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
