"""Makes questions of the packages' text: one hop and two, each answered by the passages that its searches find.

A question takes one fact (what is the capital of Mali?) or two, the first of which names the subject of the second
(what is the capital of the country in which Timbuktu lies?). It is kept if `Solver` comes to the right answer by BM25
over the same passages. One country and one person in five are held out, by a checksum of the name: every fact about
them, and every way to them, is asked for in ``eval`` alone.
"""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .corpus import Packages
from .facts import ADJECTIVE, COUNTRY_FACTS, CREATOR, NATIONALITY, NUMBER, SYMBOL, Accepted, Fact
from .passages import Passage
from .solving import PLACE_WORDS, WHOSE_WORDS, Solver

SPLITS = {"train": 4, "eval": 1}
"""How many of five questions each has."""
QUESTIONS = 2000
# In the order they are made; the last kind fills up what the others leave of the 1,000 questions with as many hops.
QUOTAS = {"creator": 50, "element": 100, "place": 150, "nationality": 200, "country": 500}
CHAINED = {"place-country": 500, "country-country": 500}

Searching = Callable[[str], Sequence[Passage]]


@dataclass(frozen=True)
class Question:
    """A question with its answers.

    Args:
        key: the name by which it is held out, or not.
        kind: of `QUOTAS` or `CHAINED`.
    """

    question: str
    answers: Accepted
    kind: str
    hops: int
    key: str


def make_questions(packages: Packages, search: Searching) -> dict[str, list[Question]]:
    """The questions of each split, always the same for the same packages.

    Args:
        search: the passages that a query finds, best first, as many as an episode's search shows.
    """
    solver, made = Solver(list(packages.countries)), {split: list[Question]() for split in SPLITS}
    for quotas in (QUOTAS, CHAINED):
        left = {split: QUESTIONS // 2 * share // 5 for split, share in SPLITS.items()}
        *_, last = quotas
        for kind, quota in quotas.items():
            wanted = {split: left[split] if kind == last else quota * share // 5 for split, share in SPLITS.items()}
            for question in _candidates(kind, packages, solver):
                split = "eval" if held_out(question.key) else "train"
                if wanted[split] and _stands(question, solver, search):
                    made[split].append(question)
                    wanted[split] -= 1
                    left[split] -= 1
                if not any(wanted.values()):
                    break
    for split, questions in made.items():
        random.Random(split).shuffle(questions)  # else a split's first tasks would all be of one kind
    return made


def held_out(key: str) -> bool:
    """Whether questions about it are for evaluations: one name in five."""
    return zlib.crc32(key.encode()) % 5 == 0


def _stands(question: Question, solver: Solver, search: Searching) -> bool:
    """Whether searching leads to the answer, and a two-hop question's is not there after one hop."""
    solving = solver.solve(question.question)
    seen = [search(next(solving))]
    try:
        while True:
            seen.append(search(solving.send(seen[-1])))
    except StopIteration as end:
        answers = end.value
    if question.hops == 2 and any(_says(passage, question.answers[0]) for passage in seen[0]):
        return False
    return len(seen) == question.hops and answers == question.answers


def _says(passage: Passage, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage.whole) is not None


def _candidates(kind: str, packages: Packages, solver: Solver) -> Iterator[Question]:
    """Questions of a kind, in an order drawn once and for all."""
    made = list({question.question: question for question in _MAKERS[kind](packages, solver)}.values())
    random.Random(kind).shuffle(made)
    yield from made


def _country(packages: Packages, solver: Solver) -> Iterator[Question]:
    for country in packages.countries:
        for fact, answers in _facts_of(packages, country):
            yield Question(fact.question.format(country), answers, "country", 1, country)


def _place(packages: Packages, solver: Solver) -> Iterator[Question]:
    for place, answers in _places(packages, solver):
        yield Question(solver.place.question.format(place), answers, "place", 1, answers[0])


def _element(packages: Packages, solver: Solver) -> Iterator[Question]:
    for title, text in packages.articles.items():
        for fact in (SYMBOL, NUMBER):
            if answers := fact.read(text):
                yield Question(fact.question.format(title), answers, "element", 1, title)


def _nationality(packages: Packages, solver: Solver) -> Iterator[Question]:
    known = _nationalities(packages)
    for person in (title for title, topic in packages.topics.items() if topic == "People"):
        answers = NATIONALITY.read(packages.articles.get(person, ""))
        if answers and answers[0] in known:
            yield Question(NATIONALITY.question.format(person), answers, "nationality", 1, person)


def _creator(packages: Packages, solver: Solver) -> Iterator[Question]:
    for work, creator in _works(packages):
        yield Question(CREATOR.question.format(work), (creator,), "creator", 1, creator)


def _place_country(packages: Packages, solver: Solver) -> Iterator[Question]:
    for place, (country,) in _places(packages, solver):
        for fact, answers in _facts_of(packages, country):
            asked = fact.question.format(PLACE_WORDS.format(place))
            yield Question(asked, answers, "place-country", 2, country)


def _country_country(packages: Packages, solver: Solver) -> Iterator[Question]:
    told = {country: _facts_of(packages, country) for country in packages.countries}
    values = Counter((fact.name, answers[0]) for facts in told.values() for fact, answers in facts)
    for country, facts in told.items():
        for by, (value, *_) in facts:
            if not by.whose or values[by.name, value] > 1:
                continue
            for fact, answers in facts:
                if fact.title != by.title:  # else one passage says both
                    asked = fact.question.format(WHOSE_WORDS.format(by.whose, value))
                    yield Question(asked, answers, "country-country", 2, country)


_MAKERS: dict[str, Callable[[Packages, Solver], Iterator[Question]]] = {
    "creator": _creator,
    "element": _element,
    "place": _place,
    "nationality": _nationality,
    "country": _country,
    "place-country": _place_country,
    "country-country": _country_country,
}


def _facts_of(packages: Packages, country: str) -> list[tuple[Fact, Accepted]]:
    found = ((fact, fact.found(country, packages.countries[country])) for fact in COUNTRY_FACTS)
    return [(fact, answers) for fact, answers in found if answers]


def _places(packages: Packages, solver: Solver) -> Iterator[tuple[str, Accepted]]:
    """Places of one country, as both the first sentence of their article and its description say."""
    for title, topic in packages.topics.items():
        if topic != "Geography" or title in packages.countries:
            continue
        last = re.split(r", | in | of ", packages.descriptions[title])[-1].strip().removeprefix("the ")
        answers = solver.place.read(packages.articles.get(title, ""))
        if answers == (last,):
            yield title, answers


def _works(packages: Packages) -> Iterator[tuple[str, str]]:
    """Works of art and books, with a creator who has an article, too."""
    for title, topic in packages.topics.items():
        found = CREATOR.read(packages.articles.get(title, "")) if topic == "Arts" else ()
        if found and found[0] != title and packages.topics.get(found[0]) == "People":
            yield title, found[0]


def _nationalities(packages: Packages) -> set[str]:
    found = (ADJECTIVE.found(country, passages) for country, passages in packages.countries.items())
    return {answers[0] for answers in found if answers} | {"English", "Scottish", "Welsh"}
