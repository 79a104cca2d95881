"""The generated catalogue: what was promised of it, and that it stays what it is."""

import hashlib

import msgspec

from agent_env.bundles.webshop import generated
from agent_env.bundles.webshop.goals import price_cap
from agent_env.bundles.webshop.matching import COLOURS, score
from agent_env.bundles.webshop.words import KINDS

MADE = generated.make()
GOALS = [goal for goals in MADE.goals.values() for goal in goals]
PRODUCTS = {product.asin: product for product in MADE.products}


def test_its_size():
    assert len(PRODUCTS) == len(MADE.products) == 2000
    assert len({product.product_category for product in MADE.products}) == len(KINDS) == 40
    assert {split: len(goals) for split, goals in MADE.goals.items()} == {"train": 1200, "eval": 300}
    assert len({product.name for product in MADE.products}) == 2000
    assert len({goal.instruction for goal in GOALS}) == 1500


def test_it_stays_what_it_is_and_another_seed_makes_another():
    def digest(made):
        return hashlib.sha256(msgspec.json.encode([made.products, made.goals])).hexdigest()[:16]

    assert digest(MADE) == digest(generated.make()) == "1889470b9031ab64"
    assert digest(generated.make(1)) != digest(MADE)


def test_goals_of_the_splits_share_neither_a_product_nor_what_they_ask_for():
    products = {split: {goal.asin for goal in goals} for split, goals in MADE.goals.items()}
    asked = {
        split: {(goal.query, frozenset(goal.attributes), goal.options) for goal in goals}
        for split, goals in MADE.goals.items()
    }
    assert products["train"].isdisjoint(products["eval"])
    assert asked["train"].isdisjoint(asked["eval"])
    assert len(asked["train"]) + len(asked["eval"]) == 1500


def test_each_goal_can_be_reached_in_full():
    for goal in GOALS:
        product = PRODUCTS[goal.asin]
        options = dict(zip(product.options, goal.options, strict=True))
        assert all(value in product.options[name] for name, value in options.items())
        assert score(product, goal, product.price, options, MADE.nouns).reward == 1.0


def test_another_kind_of_product_is_worth_less():
    lamp = next(goal for goal in GOALS if goal.query == "lamp")
    mug = next(product for product in MADE.products if product.query == "mug")
    assert score(mug, lamp, mug.price, {}, MADE.nouns).reward == 0.0


def test_what_a_goal_asks_for_is_written_on_the_products_pages():
    for goal in GOALS:
        product = PRODUCTS[goal.asin]
        assert all(attribute in product.bullets[0] for attribute in goal.attributes)
        assert all(part in goal.instruction for part in (*goal.attributes, *goal.options, goal.query))
        assert goal.price_upper > product.price


def test_no_two_options_of_a_product_share_a_value():
    for product in MADE.products:
        values = [value for values in product.options.values() for value in values]
        assert len({*values}) == len(values)


def test_colours_are_in_the_order_that_decides():
    assert [*COLOURS] == sorted(COLOURS)


class Drawn:
    """A stand-in for a generator: the first two of what it may draw."""

    def sample(self, values, count):
        assert count == 2
        self.values = values
        return values[:2]


def test_price_caps():
    drawn = Drawn()
    assert price_cap(drawn, 8.8) == (20.0, ", and price lower than 20.00 dollars")
    assert drawn.values == [10.0, 20.0, 30.0, 40.0]
    assert price_cap(drawn, 965.0) == (980.0, ", and price lower than 980.00 dollars")
    assert drawn.values == [970.0, 980.0, 990.0]
    assert price_cap(drawn, 980.0) == (1_000_000.0, "")
    assert price_cap(drawn, 10.0)[0] == 30.0  # a cap is above the price
