"""WebShop's reward: how well what was bought fits what was asked for (Yao et al., 2022, section 2.2 and its code).

::

    r = r_type * (attributes matched + options matched + [price <= cap]) / (attributes + options + 1)

Texts are alike if the share of words they have in common (thefuzz's ``token_set_ratio``) rounds to more than 85 of 100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent_env.extras import imported

from .product import Goal, Product

ALIKE = 85
Nouns = Callable[[str], Sequence[str]]
"""The nouns and proper nouns of a product's name, in lower case."""

COLOURS: tuple[str, ...] = (
    *("alabaster", "apricot", "aqua", "ash", "asphalt", "azure", "banana", "beige", "black", "blue", "blush"),
    *("bordeaux", "bronze", "brown", "burgundy", "camel", "camo", "caramel", "champagne", "charcoal", "cheetah"),
    *("chestnut", "chocolate", "christmas", "coffee", "cognac", "copper", "coral", "cranberry", "cream", "crystal"),
    *("dark", "denim", "eggplant", "elephant", "espresso", "fuchsia", "gold", "granite", "grape", "graphite"),
    *("grass", "gray", "green", "grey", "heather", "indigo", "ivory", "ivy", "khaki", "lavender", "lemon"),
    *("leopard", "light", "lilac", "lime", "magenta", "maroon", "mauve", "merlot", "midnight", "mint", "mocha"),
    *("multicolor", "mushroom", "mustard", "natural", "navy", "nude", "olive", "orange", "peach", "pewter"),
    *("pink", "plum", "purple", "rainbow", "red", "rose", "royal", "rust", "sand", "sapphire", "seashell"),
    *("silver", "skull", "slate", "steel", "stone", "stonewash", "sunflower", "tan", "taupe", "teal", "tiger"),
    *("turquoise", "violet", "walnut", "wheat", "white", "wine", "yellow"),
)
"""An option that contains one of these counts as the first of them."""
_LATIN_1 = dict.fromkeys(range(128, 256))


class Score(NamedTuple):
    """A purchase's reward in 0..1 and what it is made of.

    `kind` is r_type; `title` the share of the goal's nouns that the product's name has; `attributes` and `options` the
    shares that were matched (None if the goal asks for no option).
    """

    reward: float
    kind: float
    title: float
    same_query: bool
    same_category: bool
    attributes: float
    options: float | None
    price: bool


def score(product: Product, goal: Goal, price: float, options: Mapping[str, str], nouns: Nouns) -> Score:
    """What buying `product` at `price` dollars with the chosen `options` (value by name) is worth for `goal`."""
    same_query = product.query == goal.query
    same_category = len(_parts(product.product_category) & _parts(goal.product_category)) >= 2
    title = _title(nouns(product.name), nouns(goal.name))
    kind = 1.0 if same_query or same_category or title > 0.2 else 0.5
    if title < 0.1:
        kind = 0.1 if title else 0.0
    attributes = sum(_has(product, attribute) for attribute in goal.attributes)
    chosen, wanted = [_colour(option) for option in options.values()], [_colour(option) for option in goal.options]
    matched = sum(any(alike(option, want) for option in chosen) for want in wanted)
    within = price <= goal.price_upper
    parts = len(goal.attributes) + len(goal.options) + 1
    return Score(
        kind * (attributes + matched + within) / parts,
        kind,
        title,
        same_query,
        same_category,
        attributes / len(goal.attributes),
        matched / len(wanted) if wanted else None,
        within,
    )


def alike(one: str, other: str) -> bool:
    """Whether two texts have so many words in common that they count as one. Raises MissingExtra without rapidfuzz."""
    rapidfuzz = imported("rapidfuzz", "webshop")
    one, other = (rapidfuzz.utils.default_process(text.translate(_LATIN_1)) for text in (one, other))
    return bool(round(rapidfuzz.fuzz.token_set_ratio(one, other)) > ALIKE)


def _parts(product_category: str) -> set[str]:
    return {part.strip() for part in product_category.split("›")}


def _title(bought: Sequence[str], wanted: Sequence[str]) -> float:
    return len({*bought} & {*wanted}) / len(wanted) if wanted else 0.2


def _has(product: Product, attribute: str) -> bool:
    """Whether a product has an attribute: among its own, or word by word in what is written of it."""
    written = (product.name, " ".join(product.bullets), product.description)
    return any(alike(own, attribute) for own in product.attributes) or any(
        attribute in text.lower() for text in written
    )


def _colour(option: str) -> str:
    return next((colour for colour in COLOURS if colour in option), option)
