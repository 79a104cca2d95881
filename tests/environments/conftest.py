"""Plugins and fixtures of the tier of bundles that need packages of their own."""

from collections.abc import Iterator

import pytest

from agent_env.hosting.engine import close_engines


@pytest.fixture(autouse=True, scope="module")
def engines() -> Iterator[None]:
    """Those that a module's tests needed end with it."""
    yield
    close_engines()
