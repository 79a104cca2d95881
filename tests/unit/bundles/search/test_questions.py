"""Questions made of a small world: what is asked, in which split, and that searching answers it."""

import pytest

from agent_env.bundles.search.bm25 import Bm25
from agent_env.bundles.search.corpus import Packages
from agent_env.bundles.search.passages import Passage
from agent_env.bundles.search.questions import held_out, make_questions
from agent_env.bundles.search.scoring import normalised
from agent_env.bundles.search.solving import Solver

NAMES = ("Ardania", "Boravia", "Cestonia", "Drumland", "Elvoria", "Fennmark", "Gorlund", "Halvia", "Istria", "Jorvik")
CAPITALS = ("Arx", "Boras", "Cest", "Drum", "Elv", "Fenn", "Gorl", "Halv", "Ister", "Jork")


def country(n, name):
    return [
        Passage(f"{name}: Government", f"Capital: {CAPITALS[n]}\nIndependence: {n + 1} May 19{n + 50} (from nobody)"),
        Passage(f"{name}: People", f"Nationality: {name.removesuffix('ia')}ish"),
        Passage(f"{name}: Geography", f"Coastline: {n + 10} km\nHighest point: Mount {name} {n + 1}00 m"),
    ]


@pytest.fixture(scope="module")
def world():
    articles = {
        f"{capital}burg": f"{capital}burg is a town in {name}." for name, capital in zip(NAMES, CAPITALS, strict=True)
    }
    articles |= {"Xenium": "Xenium is a chemical element; it has symbol Xm and atomic number 119."}
    articles |= {
        "Border": "Border is a town in Ardania and Boravia.",
        "Ann Author": "Ann Author was an Ardanish writer.",
    }
    articles |= {"A Book": "A Book is a novel by Ann Author.", "Bo Unknown": "Bo Unknown was a Martian writer."}
    topics = dict.fromkeys(articles, "Geography")
    topics |= {"Xenium": "Physics", "Ann Author": "People", "Bo Unknown": "People", "A Book": "Arts"}
    described = {title: f"Town in {text.split(' in ')[-1].rstrip('.')}" for title, text in articles.items()}
    return Packages(articles, topics, described, {name: country(n, name) for n, name in enumerate(NAMES)})


@pytest.fixture(scope="module")
def search(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "bm25"
    Bm25.build(world.passages, folder)
    bm25 = Bm25(world.passages, folder)
    return lambda query: bm25.search([query], 3)[0]


@pytest.fixture(scope="module")
def made(world, search):
    return make_questions(world, search)


def of_kind(made, kind):
    return {q.question: q.answers for questions in made.values() for q in questions if q.kind == kind}


def test_what_is_asked(made):
    assert of_kind(made, "element") == {
        "What is the symbol of the chemical element Xenium?": ("Xm",),
        "What is the atomic number of the chemical element Xenium?": ("119",),
    }
    assert of_kind(made, "creator") == {"Who is the creator of A Book?": ("Ann Author",)}
    # Nobody knows what Martian is, and Border is in two countries.
    assert of_kind(made, "nationality") == {"What is the nationality of Ann Author?": ("Ardanish",)}
    assert of_kind(made, "place") == {
        f"In which country does {capital}burg lie?": (name,) for name, capital in zip(NAMES, CAPITALS, strict=True)
    }
    assert of_kind(made, "country")["What is the capital of Cestonia?"] == ("Cest",)
    chained = of_kind(made, "place-country")
    assert chained["How many kilometres of coastline does the country in which Drumburg lies have?"][0] == "13"
    assert of_kind(made, "country-country")["What is the capital of the country whose highest point is Mount Elvoria?"]


def test_each_is_answered_by_as_many_searches_as_it_has_hops(made, search):
    for question in (q for questions in made.values() for q in questions):
        solving = Solver(NAMES).solve(question.question)
        found = search(next(solving))
        for _ in range(question.hops - 1):
            found = search(solving.send(found))
        with pytest.raises(StopIteration) as end:
            solving.send(found)
        assert end.value.value == question.answers
        assert any(normalised(question.answers[0]) in normalised(passage.text) for passage in found)


def test_no_fact_of_one_split_is_asked_for_in_the_other(made):
    assert all(made.values())
    keys = {split: {question.key for question in questions} for split, questions in made.items()}
    assert not keys["train"] & keys["eval"]
    assert {key for key in keys["train"] | keys["eval"] if held_out(key)} == keys["eval"]
    asked = [question.question for questions in made.values() for question in questions]
    assert len(asked) == len(set(asked))


def test_they_are_always_the_same(made, world, search):
    assert make_questions(world, search) == made


def test_one_that_searching_does_not_answer_is_left_out(world):
    assert make_questions(world, lambda query: world.passages[:3]) != {"train": [], "eval": []}
    assert make_questions(world, lambda query: []) == {"train": [], "eval": []}
