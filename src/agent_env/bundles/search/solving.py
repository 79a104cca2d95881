"""From a generated question to its answer, search by search: how its answer is checked, and how it is demonstrated."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from .facts import COUNTRY_FACTS, CREATOR, NATIONALITY, NUMBER, SYMBOL, Accepted, Fact, country_of
from .passages import Passage

Search = Generator[str, Sequence[Passage], Accepted]
"""Yields what to search for, is sent the passages found, and returns the answers; none if they do not say."""

PLACE_WORDS, WHOSE_WORDS = "the country in which {} lies", "the country whose {} is {}"


@dataclass(frozen=True)
class Solver:
    """Answers generated questions; `countries` are the names that it knows."""

    countries: Sequence[str]
    place: Fact = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", country_of(self.countries))

    def solve(self, question: str) -> Search:
        """Search until the question is answered; gives up, with no answer, where it is no generated one."""
        for fact in (*COUNTRY_FACTS, SYMBOL, NUMBER, CREATOR, NATIONALITY, self.place):
            words = _within(fact.question, question)
            if words is not None:
                subject = yield from self._meant(words)
                if subject is None:
                    return ()
                return fact.found(subject, (yield fact.query.format(subject)))
        return ()

    def _meant(self, words: str) -> Generator[str, Sequence[Passage], str | None]:
        """The subject that words of a question stand for, searched for where they are no name."""
        place = _within(PLACE_WORDS, words)
        if place is not None:
            return next(iter(self.place.found(place, (yield self.place.query.format(place)))), None)
        for fact in COUNTRY_FACTS:
            value = _within(WHOSE_WORDS.format(fact.whose, "{}"), words) if fact.whose else None
            if value is not None:
                subjects = fact.subjects(value, (yield fact.query.format(value)))
                return subjects[0] if len(subjects) == 1 else None
        return words


def _within(written: str, text: str) -> str | None:
    before, after = written.split("{}")
    match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", text)
    return match[1] if match else None
