"""What the generated questions ask: how each fact is asked for, searched for, and read in a passage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .passages import Passage

Accepted = tuple[str, ...]
"""The answers that are right, the one that is given first; none if a passage does not say."""


@dataclass(frozen=True)
class Fact:
    """A fact of a subject.

    Args:
        name: of the fact.
        question: with a place for the subject, or for words that stand for it.
        query: what is searched for, with the subject.
        title: of the passage that says it, with the subject.
        read: the answers in such a passage.
        whose: what it is called, for the facts by which a country can be meant ("the country whose … is …").
    """

    name: str
    question: str
    query: str
    title: str
    read: Callable[[str], Accepted]
    whose: str = ""

    def found(self, subject: str, passages: Sequence[Passage]) -> Accepted:
        """The answers for a subject in passages that a search gave."""
        title = self.title.format(subject)
        read = (self.read(passage.text) for passage in passages if passage.title == title)
        return next((answers for answers in read if answers), ())

    def subjects(self, value: str, passages: Sequence[Passage]) -> list[str]:
        """Those of which a passage says that the fact is `value`."""
        before, after = self.title.split("{}")
        titles = ((passage.title.removeprefix(before).removesuffix(after), passage) for passage in passages)
        return [
            name
            for name, passage in titles
            if passage.title == self.title.format(name) and value in self.read(passage.text)[:1]
        ]


def _line(label: str, pattern: str, *more: str) -> Callable[[str], Accepted]:
    """Reads a line of a Factbook passage: the first group that matches; `more` are formats for other answers."""
    written = re.compile(rf"^{label}: {pattern}$", re.MULTILINE)

    def read(text: str) -> Accepted:
        match = written.search(text)
        if match is None:
            return ()
        groups = [group for group in match.groups() if group]
        return (*groups, *(form.format(groups[0]) for form in more))

    return read


def _currency(text: str) -> Accepted:
    match = re.search(r"^Currency: ([^()\d]+) \(([A-Z]{3})\) per US dollar", text, re.MULTILINE)
    if match is None:
        return ()
    name, code = match.groups()
    return (name, *([name.removesuffix("s")] if name.endswith("s") else []), code)


_REST = r"(?: \(.*| ?;.*)?"  # years of estimates, remarks
_DATE = r"(\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4})"

CAPITAL = Fact(
    "capital",
    "What is the capital of {}?",
    "{} government capital",
    "{}: Government",
    _line("Capital", r"([^();,]+?)(?: \([^;]*\))?"),
    "capital",
)
INDEPENDENCE = Fact(
    "independence",
    "On which date did {} become independent?",
    "{} government independence national holiday",
    "{}: Government",
    _line("Independence", rf"{_DATE}(?: \(.*)?"),
)
ANTHEM = Fact(
    "anthem",
    "What is the title of the national anthem of {}?",
    "{} government national anthem",
    "{}: Government",
    _line("National anthem", r'"([^"]+)"(?: \(([^()]+)\))?'),
    "national anthem",
)
CURRENCY = Fact("currency", "What is the currency of {}?", "{} economy currency", "{}: Economy", _currency)
PARTNER = Fact(
    "partner",
    "Which is the largest export partner of {}?",
    "{} economy export partners",
    "{}: Economy",
    _line("Export partners", r"([A-Z][^\d%,]+) \d+%,.*"),
)
HIGHEST = Fact(
    "highest",
    "What is the highest point of {}?",
    "{} geography highest point",
    "{}: Geography",
    _line("Highest point", rf"(?!unnamed)([A-Z][^();,\d]+?) -?[\d,.]+ m{_REST}"),
    "highest point",
)
LOWEST = Fact(
    "lowest",
    "What is the lowest point of {}?",
    "{} geography lowest point",
    "{}: Geography",
    _line("Lowest point", rf"(?!unnamed)([A-Z][^();,\d]+?) -?[\d,.]+ m{_REST}"),
)
COASTLINE = Fact(
    "coastline",
    "How many kilometres of coastline does {} have?",
    "{} geography coastline",
    "{}: Geography",
    _line("Coastline", rf"([1-9][\d,.]*) km{_REST}", "{} km", "{} kilometres"),
)
INTERNET = Fact(
    "internet",
    "What is the internet country code of {}?",
    "{} communications internet country code",
    "{}: Communications and transport",
    _line("Internet country code", r"(\.[a-z]{2})"),
    "internet country code",
)
AIRPORTS = Fact(
    "airports",
    "How many airports does {} have?",
    "{} communications and transport airports",
    "{}: Communications and transport",
    _line("Airports", rf"([1-9][\d,]*){_REST}"),
)
ADJECTIVE = Fact(
    "adjective",
    "Which adjective describes people from {}?",
    "{} people nationality",
    "{}: People",
    _line("Nationality", r"([A-Z][\w' -]+)"),
)
COUNTRY_FACTS = (
    *(CAPITAL, INDEPENDENCE, ANTHEM, CURRENCY, PARTNER, HIGHEST, LOWEST, COASTLINE, INTERNET, AIRPORTS, ADJECTIVE),
)

SYMBOL = Fact(
    "symbol",
    "What is the symbol of the chemical element {}?",
    "{} chemical element symbol",
    "{}",
    lambda text: _grouped(r"is a chemical element; it has symbol (\w+)", text),
)
NUMBER = Fact(
    "number",
    "What is the atomic number of the chemical element {}?",
    "{} chemical element atomic number",
    "{}",
    lambda text: _grouped(r"is a chemical element; it has symbol \w+ and atomic number (\d+)", text),
)
_WORK = (
    "novel|novella|opera|ballet|symphony|oratorio|painting|mural|fresco|statue|sculpture|play|tragedy|comedy|poem|"
    "film|book|epic|triptych|short story|treatise"
)
_PERSON = r"((?:[A-Z][\w'’-]+|[A-Z]\.)(?: (?:[A-Z]\.|[A-Z][\w'’-]*|van|von|de|da|del|della|di|la|le))*)"
CREATOR = Fact(
    "creator",
    "Who is the creator of {}?",
    "{} by",
    "{}",
    # ... a novel by the English author George Orwell ...
    lambda text: _grouped(
        rf"\A[^.]{{0,120}}\b(?:{_WORK})s?\b[^.;]{{0,80}}?(?<!produced )(?<!released )\bby "
        rf"(?:the )?(?:(?:[A-Z][\w-]+ )?(?:[a-z-]+ )+)?{_PERSON}",
        text,
    ),
)
NATIONALITY = Fact(
    "nationality",
    "What is the nationality of {}?",
    "{}",
    "{}",
    lambda text: _grouped(r"\A[^.]{0,160}?\b(?:was|is) an? ([A-Z][a-z]+) [a-z]+\b", text),
)


def _grouped(pattern: str, text: str) -> Accepted:
    match = re.search(pattern, text)
    return match.groups() if match else ()


def country_of(countries: Sequence[str]) -> Fact:
    """The fact of which country a place is in: the one of `countries` that its article's first sentence names."""
    by_length = sorted(countries, key=len, reverse=True)
    named = re.compile(rf"\b({'|'.join(map(re.escape, by_length))})\b")

    def read(text: str) -> Accepted:
        here = set(named.findall(text.split(". ")[0]))
        return tuple(here) if len(here) == 1 else ()

    return Fact("place", "In which country does {} lie?", "{}", "{}", read)
