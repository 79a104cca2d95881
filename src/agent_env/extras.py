"""Modules that an extra of this package installs, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from agent_env.errors import MissingExtra


def imported(module: str, extra: str) -> Any:
    """An installed module. Raises MissingExtra, which names the `extra` to install, if it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtra(extra, module) from missing
