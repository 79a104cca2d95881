"""The products and goals that there are: WebShop's own if their files are here, else generated ones.

They are read or made once, and the search index once it is first needed; all sessions share both.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from agent_env.install.needs import official_data

from . import generated, official
from .goals import Catalogue
from .session import Shop

_making = threading.RLock()


def catalogue() -> Catalogue:
    """The catalogue. Raises ValueError if official files are there and cannot be used."""
    with _making:  # else the first sessions, which come at once, would each make their own
        return _catalogue()


def shop() -> Shop:
    """The shop that sells it."""
    with _making:
        return _shop()


@cache
def _catalogue() -> Catalogue:
    folder = official_data(Path(__file__).parent)
    return generated.make() if folder is None else official.read(folder)


@cache
def _shop() -> Shop:
    sold = _catalogue()
    return Shop(sold.products, sold.nouns)
