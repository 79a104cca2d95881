"""What the installed verl's functions look like: their parameters, and their source."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters, ``self`` among them."""
    return list(inspect.signature(inspect.unwrap(function)).parameters)


def source(function: Callable[..., Any]) -> str:
    """The source, without wrappers."""
    return inspect.getsource(inspect.unwrap(function))
