"""The reward: equal to the original's in every case that was computed by it, and cases worked out by hand."""

import pytest

from agent_env.bundles.webshop.matching import alike, score
from agent_env.bundles.webshop.product import Goal, Product
from support.webshop_shop import GOLDEN, expected, scored

NOUNS = {
    "desk lamp": ("desk", "lamp"),
    "wireless gaming mouse": ("gaming", "mouse"),
    "women's cotton t-shirt": ("women", "cotton", "t", "shirt"),
    "running shoes for men": ("shoes", "men"),
    "the of and": (),
    "ceramic coffee mug": ("coffee", "mug"),
    "noise cancelling headphones": ("noise", "headphones"),
}


@pytest.mark.parametrize("case", GOLDEN["reward_cases"])
def test_the_originals_rewards(case):
    assert scored(case, NOUNS.__getitem__) == pytest.approx(expected(case), abs=1e-12)


def product(**changes):
    made = {
        "asin": "B1",
        "name": "Blue Lamp",
        "category": "home",
        "query": "lamp",
        "product_category": "Home › Light › Lamps",
        "description": "Dims by itself.",
        "bullets": ("a switch",),
        "attributes": ("easy to clean",),
        "options": {},
        "price": 10.0,
        "price_tag": "$10.0",
    }
    return Product(**{**made, **changes})


def worth(bought, *, chosen=(), price=10.0, nouns=("lamp",), **wanted):
    goal = {"name": "x", "query": "lamp", "product_category": "Home › Light › Lamps", "attributes": ("easy to clean",)}
    goal = Goal(instruction="", asin="B1", **{**goal, "price_upper": 20.0, **wanted})
    wanted_nouns, bought_nouns = (nouns, nouns) if isinstance(nouns[0], str) else nouns
    return score(bought, goal, price, dict(chosen), {bought.name: bought_nouns, "x": wanted_nouns}.__getitem__)


def test_all_that_was_asked_for_is_worth_1_and_each_part_its_share():
    asked = {"attributes": ("easy to clean", "dims by itself"), "options": ("red", "large")}
    everything = {"a": "dark red", "b": "large"}  # dark comes before red among the colours: another colour
    assert worth(product(), chosen={"a": "red", "b": "large"}, **asked).reward == 1.0
    assert worth(product(), chosen=everything, **asked).reward == pytest.approx(4 / 5)
    assert worth(product(), chosen={"a": "red"}, price=20.01, **asked).reward == pytest.approx(3 / 5)
    assert worth(product(), price=20.0).reward == 1.0  # at the cap is within it
    assert worth(product(), attributes=("foldable",)).reward == 0.5


@pytest.mark.parametrize(
    ("query", "category", "title", "kind"),
    [
        ("lamp", "x › y", ((*"abcde",), ("a",)), 1.0),  # the same query
        ("vase", "Home › Light › Shades", ((*"abcde",), ("a",)), 1.0),  # two parts of the category
        ("vase", "Home › Vases", ((*"abcd",), ("a",)), 1.0),  # a title score of 0.25
        ("vase", "Home › Vases", ((*"abcde",), ("a",)), 0.5),  # of 0.2
        ("lamp", "x", ((*"abcdefghijk",), ("a",)), 0.1),  # of 1/11: however alike the rest
        ("lamp", "Home › Light › Lamps", (("a",), ("b",)), 0.0),
    ],
)
def test_the_kind_of_product(query, category, title, kind):
    found = worth(product(query=query, product_category=category), nouns=title)
    assert (found.kind, found.reward) == (kind, kind)


def test_what_is_alike():
    assert alike("large", "x-large")  # all words of one are in the other
    assert alike("Easy-to-Clean", "easy to clean")
    assert not alike("easy to clean", "easy to install")
    assert not alike("", "")
    assert alike("caffè", "caff")  # thefuzz leaves out letters of Latin-1's upper half
