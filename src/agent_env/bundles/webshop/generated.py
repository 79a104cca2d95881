"""A catalogue of our own, for where WebShop's files are not: 2,000 products in 40 categories, and 1,500 goals.

All of it follows from one seed. Each product has its brand and series to itself, so that its name finds it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from .goals import Catalogue, goal_of, held_out, price_cap
from .product import Goal, Product, Review
from .words import ASKING, ATTRIBUTES, BLAME, KINDS, OPTIONS, PRAISE, SERIES, SYLLABLES, Kind

SEED = 20221031
GOALS = {"train": 1200, "eval": 300}
_BRANDS_OF_A_KIND = 5


def make(seed: int = SEED) -> Catalogue:
    """The catalogue of a seed. Goals of different splits differ in product, and in what they ask for."""
    rng = random.Random(seed)
    brands = _brands(rng)
    products: list[Product] = []
    nouns: dict[str, tuple[str, ...]] = {}
    for kind in KINDS:
        for brand in [next(brands) for _ in range(_BRANDS_OF_A_KIND)]:
            for series in SERIES:
                product = _product(rng, kind, f"{brand} {series}", len(products))
                products.append(product)
                nouns[product.name] = (brand.lower(), series.lower(), *kind.noun.split())
    rng.shuffle(products)
    return Catalogue(tuple(products), _goals(rng, products), nouns.__getitem__)


def _brands(rng: random.Random) -> Iterator[str]:
    """Names that no two kinds share."""
    known: set[str] = set()
    while True:
        name = "".join(rng.sample(SYLLABLES, 3)).capitalize()
        if name not in known:
            known.add(name)
            yield name


def _product(rng: random.Random, kind: Kind, name: str, number: int) -> Product:
    attributes = rng.sample(ATTRIBUTES[kind.attributes].split(", "), rng.randint(3, 5))
    options = {option: tuple(_some(rng, OPTIONS[option].split(", "))) for option in kind.options}
    price = round(rng.uniform(kind.low, kind.high), 2)
    full = f"{name} {kind.noun.title()}, {attributes[0].title()}, {attributes[1].title()}"
    reviews = tuple(_review(rng, kind) for _ in range(rng.randint(0, 2)))
    department = kind.path.split(" › ")[0]
    return Product(
        asin=f"B{number:09d}",
        name=full,
        category=department.lower(),
        query=kind.noun,
        product_category=kind.path,
        description=f"{kind.noun.capitalize()} by {name.split()[0]}, made to be {attributes[0]}.",
        bullets=(
            f"{', '.join(attributes)}.",
            *(f"{option}: {len(values)} to choose from" for option, values in options.items()),
        ),
        attributes=tuple(attributes),
        options=options,
        price=price,
        price_tag=f"${price}",
        rating=str(round(rng.uniform(2.5, 5.0), 1)),
        reviews=reviews,
    )


def _some(rng: random.Random, values: list[str]) -> list[str]:
    """Three to five of the values, in their order."""
    chosen = rng.sample(values, min(rng.randint(3, 5), len(values)))
    return sorted(chosen, key=values.index)


def _review(rng: random.Random, kind: Kind) -> Review:
    score = rng.randint(1, 5)
    title = rng.choice(PRAISE if score > 3 else BLAME)
    return Review(title, score, f"I have used this {kind.noun} for {rng.randint(2, 30)} weeks.")


def _goals(rng: random.Random, products: list[Product]) -> dict[str, list[Goal]]:
    """Goals by split. What a goal asks for, its price cap aside, no other asks for."""
    asked: set[tuple[str, frozenset[str], tuple[str, ...]]] = set()
    goals: dict[str, list[Goal]] = {}
    for split, count in GOALS.items():
        suitable = [product for product in products if held_out(product.asin) == (split == "eval")]
        goals[split] = []
        while len(goals[split]) < count:
            goal = _goal(rng, rng.choice(suitable))
            content = (goal.query, frozenset(goal.attributes), goal.options)
            if content not in asked:
                asked.add(content)
                goals[split].append(goal)
    return goals


def _goal(rng: random.Random, product: Product) -> Goal:
    attributes = rng.sample(product.attributes, rng.randint(1, min(3, len(product.attributes))))
    options = {name: rng.choice(values) for name, values in product.options.items()}
    cap, price = price_cap(rng, product.price)
    wanted = ", and ".join(f"{name}: {value}" for name, value in options.items())
    text = f"{rng.choice(ASKING)} {', '.join(attributes)} {product.query} with {wanted}{price}"
    return goal_of(product, text, attributes, [*options.values()], cap)
