"""What is sold, and what is asked for."""

from __future__ import annotations

from typing import Annotated

import msgspec

NO_CAP = 1_000_000.0
"""The price cap of a goal that has none, as WebShop writes it."""


class Review(msgspec.Struct, frozen=True):
    """A customer's review; `score` of 5."""

    title: str
    score: int
    body: str


class Product(msgspec.Struct, frozen=True):
    """A product.

    Attributes:
        asin: its id, in upper case.
        name: its title as well.
        category: of the shop's few; `product_category` is a path with ``›`` between its parts.
        query: what its category is searched by.
        attributes: what is true of it, as goals ask for it.
        options: the values that can be chosen, by the option's name; lower case.
        price: in dollars; `price_tag` is what the pages say.
    """

    asin: str
    name: str
    category: str
    query: str
    product_category: str
    description: str
    bullets: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    price: float
    price_tag: str
    rating: str = "N.A."
    reviews: tuple[Review, ...] = ()


class Goal(msgspec.Struct, frozen=True):
    """What an instruction asks for.

    Attributes:
        asin, name, query, product_category: of the product that it was made of.
        attributes: that are asked for.
        options: the values that are to be chosen.
        price_upper: the price cap in dollars.
    """

    instruction: str
    asin: str
    name: str
    query: str
    product_category: str
    attributes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    options: tuple[str, ...] = ()
    price_upper: float = NO_CAP
