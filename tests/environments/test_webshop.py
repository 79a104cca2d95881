"""WebShop on official files (products made up here, in their format), whose nouns spaCy finds."""

import json

import pytest

from agent_env import load_bundle
from agent_env.bundles.webshop import generated
from agent_env.bundles.webshop.official import _nouns
from support.text_games import demonstrated
from support.webshop_shop import GOLDEN, expected, scored


@pytest.mark.parametrize("case", GOLDEN["reward_cases"])
def test_the_originals_rewards(case):
    assert scored(case, _nouns) == pytest.approx(expected(case), abs=1e-12)


def test_nouns_are_in_lower_case_and_no_other_word_is_one():
    assert _nouns("Ceramic Coffee Mug with the handle") == ("coffee", "mug", "handle")  # ceramic is an adjective
    assert _nouns("the of and") == ()


@pytest.fixture
def official(tmp_path, monkeypatch):
    """The bundle with 60 products of the generated catalogue, as WebShop would write them."""
    products = [product for product in generated.make().products if product.query in ("mug", "lamp", "wallet")][:60]
    items = [
        {
            "asin": product.asin,
            "name": product.name,
            "category": product.category,
            "query": product.query,
            "product_category": product.product_category,
            "full_description": product.description,
            "small_description": list(product.bullets),
            "pricing": product.price_tag,
            "customization_options": {
                name: [{"value": value, "image": None} for value in values] for name, values in product.options.items()
            },
        }
        for product in products
    ]
    about = {
        product.asin: {
            "attributes": list(product.attributes),
            "instruction": f"Find me {product.attributes[0]} {product.query}",
            "instruction_attributes": list(product.attributes[:1]),
        }
        for product in products
    }
    for name, content in (("items_shuffle_1000", items), ("items_ins_v2_1000", about), ("items_human_ins", {})):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    return load_bundle("webshop")


async def test_official_products_are_sold_and_their_goals_reached(official):
    tasks = official.tasks("all")
    assert len(tasks) > 300  # a goal a combination of options
    assert {task.env["goal"]["query"] for task in tasks} == {"mug", "lamp", "wallet"}
    plays = [await demonstrated(official, task, 0.0) for task in tasks[::8]]
    assert {play.ended.scores["shop/task_score"] for play in plays} == {1.0}
