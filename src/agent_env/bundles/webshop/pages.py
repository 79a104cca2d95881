"""WebShop's pages as text: what is visible, in order, and what can be clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jinja2.utils import htmlsafe_json_dumps

from .product import Product

PER_PAGE = 10
SEPARATOR = " [SEP] "
SEARCH, BACK, NEXT, PREVIOUS, BUY = "search", "back to search", "next >", "< prev", "buy now"
SUB_PAGES = ("description", "features", "reviews")


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        texts: what is visible, in order.
        clickables: what can be clicked, in lower case; values of options are among them.
        searches: whether there is a search box.
    """

    kind: Literal["start", "results", "item", "sub", "done"]
    texts: tuple[str, ...]
    clickables: tuple[str, ...] = ()
    searches: bool = False

    def __str__(self) -> str:
        return SEPARATOR.join(self.texts)


def start(instruction: str) -> Page:
    """The page with the search box."""
    return Page("start", _shown("WebShop", "Instruction:", instruction, "Search"), (SEARCH,), searches=True)


def results(instruction: str, found: Sequence[Product], number: int) -> Page:
    """The page of that number, from 1, of what a search found. There is always a next page, if an empty one."""
    shown = found[(number - 1) * PER_PAGE : number * PER_PAGE]
    buttons = ("Back to Search", f"Page {number} (Total results: {len(found)})", *(("< Prev",) if number > 1 else ()))
    products = [text for product in shown for text in (product.asin, product.name, product.price_tag)]
    clickables = (BACK, *((PREVIOUS,) if number > 1 else ()), NEXT, *(product.asin.lower() for product in shown))
    return Page("results", _shown("Instruction:", instruction, *buttons, "Next >", *products), clickables)


def item(instruction: str, product: Product) -> Page:
    """A product's page. Which options are chosen cannot be seen on it."""
    options = [text for name, values in product.options.items() for text in (name, *values)]
    about = (product.name, f"Price: {product.price_tag}", f"Rating: {product.rating}")
    buttons = ("Description", "Features", "Reviews", "Buy Now")
    values = [value for values in product.options.values() for value in values]
    return Page(
        "item",
        _shown("Instruction:", instruction, "Back to Search", "< Prev", *options, *about, *buttons),
        tuple(dict.fromkeys((BACK, PREVIOUS, *SUB_PAGES, BUY, *values))),
    )


def sub_page(instruction: str, product: Product, name: str) -> Page:
    """One of `SUB_PAGES` of a product."""
    match name:
        case "description":
            about: tuple[str, ...] = (product.description,)
        case "features":
            about = product.bullets
        case _:
            reviews = [
                text for review in product.reviews for text in (f'"{review.title}"', str(review.score), review.body)
            ]
            about = (*reviews,) or ("No reviews found",)
    return Page("sub", _shown("Instruction:", instruction, "Back to Search", "< Prev", *about), (BACK, PREVIOUS))


def done(asin: str, options: Mapping[str, str], reward: float) -> Page:
    """The page after a purchase, with WebShop's empty fields for its people."""
    thanks = ("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)")
    chosen = str(htmlsafe_json_dumps(dict(options), sort_keys=True))
    bought = ("Purchased", "asin", asin, "options", chosen)
    more = [text for name in ("attrs", "category", "query", "product category") for text in (name, "None")]
    target = ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    score = ("Reward", "Your score (min 0.0, max 1.0)", str(reward), "Reward Details", "None")
    return Page("done", (*thanks, *bought, *more, "Target", *target, "Goal", "None", *score))


def _shown(*texts: str) -> tuple[str, ...]:
    return tuple(stripped for text in texts if (stripped := text.strip()))
