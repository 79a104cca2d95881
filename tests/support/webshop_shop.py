"""What the original WebShop answered (``webshop_golden.json``), and the shop that it answered for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from agent_env.bundles.webshop.matching import Nouns, Score, score
from agent_env.bundles.webshop.product import Goal, Product
from agent_env.bundles.webshop.session import Shop

FILE = Path(__file__).parents[1] / "unit" / "bundles" / "webshop" / "webshop_golden.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def sixty_products() -> Shop:
    """The shop of the walk: its pages name 20 of the 60 products; the others are of another kind."""
    shown = {}
    for step in GOLDEN["walk"]:
        texts = step["observation"].split(" [SEP] ")
        for place, text in enumerate(texts):
            if re.fullmatch(r"B0000000\d\d", text) and place + 2 < len(texts) and texts[place + 2].startswith("$"):
                shown[int(text[1:])] = (texts[place + 1], texts[place + 2])
    # Most of the others are Zetas, too: the original's order shows that the kind weighs more than the brand.
    others = {number: (f"{'Zeta' if number > 6 else 'Orbit'} vase model {number}", "$5.0") for number in range(60)}
    made = [_product(number, *(others | shown)[number]) for number in range(60)]
    return Shop(tuple(made), str.split)


def _product(number: int, name: str, price: str) -> Product:
    kind = name.split()[1]
    return Product(
        asin=f"B{number:09d}",
        name=name,
        category="made up",
        query=kind,
        product_category="Made up › Things",
        description=f"A nice {kind}.",
        bullets=(f"durable {kind}", "machine wash"),
        attributes=("durable", "machine wash"),
        options={"color": ("red", "blue", "black", "white"), "size": ("small", "medium", "large")},
        price=float(price.removeprefix("$")),
        price_tag=price,
    )


def walk_goal() -> Goal:
    """The goal of the walk."""
    said = GOLDEN["goal"]
    return Goal(
        instruction=said["instruction_text"],
        asin=said["asin"],
        name="Zeta headphones model 26",
        query="headphones",
        product_category="Made up › Things",
        attributes=tuple(said["attributes"]),
        options=tuple(said["goal_options"]),
        price_upper=said["price_upper"],
    )


def scored(case: dict[str, Any], nouns: Nouns) -> Score:
    """What a reward case comes to here."""
    bought, wanted = case["product"], case["goal"]
    product = Product(
        asin="B000000000",
        name=bought["name"],
        category="",
        query=bought["query"],
        product_category=bought["product_category"],
        description=bought["Description"],
        # A product's title is its name, but in these cases: the title is then one more text that it is described by.
        bullets=(*bought["BulletPoints"], bought["Title"]),
        attributes=tuple(bought["Attributes"]),
        options={},
        price=case["price"],
        price_tag="",
    )
    goal = Goal(
        instruction="",
        asin="",
        name=wanted["name"],
        query=wanted["query"],
        product_category=wanted["product_category"],
        attributes=tuple(wanted["attributes"]),
        options=tuple(wanted["goal_options"]),
        price_upper=wanted["price_upper"],
    )
    return score(product, goal, case["price"], case["options"], nouns)


def expected(case: dict[str, Any]) -> Score:
    """What the original came to."""
    parts = case["parts"]
    return Score(
        case["reward"],
        parts["r_type"],
        parts["title_score"],
        parts["query_match"],
        parts["category_match"],
        parts["r_att"],
        parts.get("r_option"),
        parts["r_price"],
    )
