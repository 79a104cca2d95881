"""Waiting for what another task, thread or process does, within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return once `condition` holds; fails when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        await asyncio.sleep(0.01)
