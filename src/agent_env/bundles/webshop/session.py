"""A customer in the shop: the page they are on, what they searched for, the options they chose, what they bought."""

from __future__ import annotations

import re

from . import pages
from .matching import Nouns, Score, score
from .product import Goal, Product
from .searching import Index

_ACTION = re.compile(r"(.+)\[(.+)\]")


class Shop:
    """Products and the search for them; shared by all sessions, and changed by none.

    Args:
        products: in the order of the search index.
        nouns: of their names (see `matching.Nouns`).
    """

    def __init__(self, products: tuple[Product, ...], nouns: Nouns) -> None:
        self.products = {product.asin: product for product in products}
        self.nouns = nouns
        self._in_order = products
        self._index = Index(document(product) for product in products)

    def find(self, query: str) -> list[Product]:
        """What a search for words finds, best first."""
        return [self._in_order[place] for place in self._index.search(query)]


def document(product: Product) -> str:
    """What a product is found by: name, description, the first bullet point and options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join((product.name, product.description, *product.bullets[:1], options)).lower()


class Session:
    """One customer with one goal. Actions are WebShop's: ``search[words]`` and ``click[item]``, in lower case.

    Attributes:
        page: where the customer is.
        found: by the last search; its page `number` was shown.
        product: that was opened; None before and among the results.
        options: that were chosen, the value by the option's name.
        bought: how well the purchase fits; None before it.
    """

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self._shop, self.goal = shop, goal
        self.bought: Score | None = None
        self.found: list[Product] = []
        self.product: Product | None = None
        self._begin()

    def act(self, action: str) -> bool:
        """Do an action. What the page does not offer changes nothing; returns whether anything was done.

        A search works on every page, as in WebShop, though only the first has a box for it.
        """
        written = _ACTION.match(action)
        if written is None or self.bought is not None:
            return False
        name, argument = written.groups()
        if name == "search":
            self.found, self.number = self._shop.find(argument), 1
            self._show_results()
        elif name == "click" and argument in self.page.clickables and argument != pages.SEARCH:
            self._click(argument)
        else:
            return False
        return True

    def _click(self, what: str) -> None:
        kind = self.page.kind
        if what == pages.BACK:
            self._begin()
        elif kind == "results":
            self._click_result(what)
        elif what == pages.PREVIOUS and kind == "item":
            self._show_results()
        else:
            self._click_product(what)

    def _click_result(self, what: str) -> None:
        if what in (pages.NEXT, pages.PREVIOUS):
            self.number += 1 if what == pages.NEXT else -1
            self._show_results()
        else:
            self.product = self._shop.products[what.upper()]
            self._show_item()

    def _click_product(self, what: str) -> None:
        assert self.product is not None
        if what == pages.BUY:
            product = self.product
            self.bought = score(product, self.goal, product.price, self.options, self._shop.nouns)
            self.page = pages.done(product.asin, self.options, self.bought.reward)
        elif what in pages.SUB_PAGES:
            self.page = pages.sub_page(self.goal.instruction, self.product, what)
        else:
            # Where two options have the value, the page has two buttons of one name: the last is the one that is found.
            names = [name.lower() for name, values in self.product.options.items() if what in values]
            self.options |= dict.fromkeys(names[-1:], what)
            self._show_item()

    def _begin(self) -> None:
        self.found, self.number, self.product = [], 0, None
        self.options: dict[str, str] = {}
        self.page = pages.start(self.goal.instruction)

    def _show_results(self) -> None:
        self.product, self.options = None, {}
        self.page = pages.results(self.goal.instruction, self.found, self.number)

    def _show_item(self) -> None:
        assert self.product is not None
        self.page = pages.item(self.goal.instruction, self.product)
