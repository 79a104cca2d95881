"""What goals made of official and of generated products have in common: price caps, and which are held out."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from .matching import Nouns
from .product import NO_CAP, Goal, Product


@dataclass(frozen=True)
class Catalogue:
    """Products, and goals by split; no product has goals in both splits.

    `nouns` gives those of the products' names (see `matching.Nouns`).
    """

    products: tuple[Product, ...]
    goals: dict[str, list[Goal]]
    nouns: Nouns


def held_out(asin: str) -> bool:
    """Whether goals of a product are for ``eval`` alone: one product in five, by a checksum."""
    return zlib.crc32(asin.encode()) % 5 == 0


def price_cap(rng: random.Random, price: float) -> tuple[float, str]:
    """A cap above `price`, and how an instruction says it.

    Two of the first four multiples of 10 above the price, below 1,000, are drawn, and the larger taken; where there are
    no two, there is no cap.
    """
    above = [float(cap) for cap in range(10, 1000, 10) if cap > price][:4]
    if len(above) < 2:
        return NO_CAP, ""
    cap = max(rng.sample(above, 2))
    return cap, f", and price lower than {cap:.2f} dollars"


def goal_of(product: Product, instruction: str, attributes: Sequence[str], options: Sequence[str], cap: float) -> Goal:
    """A goal that `product` fits."""
    return Goal(
        instruction=instruction,
        asin=product.asin,
        name=product.name,
        query=product.query,
        product_category=product.product_category,
        attributes=tuple(attributes),
        options=tuple(options),
        price_upper=cap,
    )
