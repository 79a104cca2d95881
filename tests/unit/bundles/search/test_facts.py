"""Facts as passages say them: what is read, and what is not."""

import pytest

from agent_env.bundles.search import facts
from agent_env.bundles.search.passages import Passage


@pytest.mark.parametrize(
    ("fact", "line", "answers"),
    [
        (facts.CAPITAL, "Capital: Paris", ("Paris",)),
        (facts.CAPITAL, "Capital: Mata-Utu (on Ile Uvea)", ("Mata-Utu",)),
        (facts.CAPITAL, "Capital: Porto-Novo (constitutional capital); Cotonou (seat of government)", ()),
        (facts.CURRENCY, "Currency: euros (EUR) per US dollar -", ("euros", "euro", "EUR")),
        (facts.CURRENCY, "Currency: tenge (KZT) per US dollar -", ("tenge", "KZT")),
        (facts.HIGHEST, "Highest point: Grossglockner 3,798 m", ("Grossglockner",)),
        (facts.HIGHEST, "Highest point: unnamed elevation 675 m; near Kotopounga", ()),
        (facts.LOWEST, "Lowest point: Dead Sea -431 m", ("Dead Sea",)),
        (facts.COASTLINE, "Coastline: 4,853 km", ("4,853", "4,853 km", "4,853 kilometres")),
        (facts.COASTLINE, "Coastline: 0 km (landlocked)", ()),
        (facts.INTERNET, "Internet country code: .bj", (".bj",)),
        (facts.INTERNET, "Internet country code: metropolitan France - .fr; French Guiana - .gf", ()),
        (facts.AIRPORTS, "Airports: 1,218 (2025)", ("1,218",)),
        (facts.INDEPENDENCE, "Independence: 1 August 1960 (from France)", ("1 August 1960",)),
        (facts.INDEPENDENCE, "Independence: none (overseas collectivity of France)", ()),
        (
            facts.ANTHEM,
            'National anthem: "Aegukga" (Patriotic Song)',
            ("Aegukga", "Patriotic Song"),
        ),
        (facts.PARTNER, "Export partners: UAE 42%, Bangladesh 20%, India 11% (2023)", ("UAE",)),
        (facts.ADJECTIVE, "Nationality: Beninese", ("Beninese",)),
        (facts.ADJECTIVE, "Nationality: Kittitian, Nevisian", ()),
    ],
)
def test_a_countrys(fact, line, answers):
    title = fact.title.format("X")
    passages = [Passage("Y: Other", line), Passage(title, f"Before: a\n{line}\nAfter: b")]
    assert fact.found("X", passages) == answers
    assert fact.found("Z", passages) == ()


def test_the_country_of_a_value():
    passages = [
        Passage("France: Government", "Capital: Paris"),
        Passage("Paris", "Capital: Paris"),
        Passage("Texas: Government", "Capital: Paris (of old); Austin"),
        Passage("Mali: Government", "Capital: Bamako"),
    ]
    assert facts.CAPITAL.subjects("Paris", passages) == ["France"]
    assert facts.CAPITAL.subjects("Lyon", passages) == []


@pytest.mark.parametrize(
    ("fact", "text", "answers"),
    [
        (facts.SYMBOL, "Gold is a chemical element; it has symbol Au and atomic number 79.", ("Au",)),
        (facts.NUMBER, "Gold is a chemical element; it has symbol Au and atomic number 79.", ("79",)),
        (
            facts.CREATOR,
            "Carmen is an opera in four acts by the French composer Georges Bizet. It is by him.",
            ("Georges Bizet",),
        ),
        (facts.CREATOR, "Middlemarch is a novel by English author George Eliot, the pen name of …", ("George Eliot",)),
        (facts.CREATOR, "The Waste Land is a poem by T. S. Eliot, widely regarded …", ("T. S. Eliot",)),
        (facts.CREATOR, "Psycho is a 1960 film produced by Paramount and loved by all.", ()),
        (facts.CREATOR, "Carmen is a name. It is a novel by Nobody.", ()),
        (facts.NATIONALITY, "Édouard Manet was a French modernist painter. He was an American hero.", ("French",)),
        (facts.NATIONALITY, "He lived. He was a French painter.", ()),
    ],
)
def test_an_articles(fact, text, answers):
    assert fact.found("it", [Passage("another", "none"), Passage("it", text)]) == answers


def test_the_country_of_a_place_is_the_one_that_its_first_sentence_names():
    place = facts.country_of(["Guinea", "Papua New Guinea", "Mali", "Niger"])
    assert place.read("Timbuktu is a city in Mali, north of a river. Niger is near.") == ("Mali",)
    assert place.read("Lae is a city in Papua New Guinea.") == ("Papua New Guinea",)
    assert place.read("Timbuktu is a city in Mali on the Niger River.") == ()
    assert place.read("Malian Nigeria is nowhere.") == ()
