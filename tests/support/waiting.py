"""Waiting for what another task, thread or process does, within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def within(seconds: float) -> float:
    """`seconds` of a machine that is idle, as long as they take on this one now.

    A limit on how quick something must be says nothing when the processor is busy elsewhere: by as much as a little
    work takes longer than the processor time it needs, the limit is longer too.
    """
    began, spent = time.perf_counter(), time.process_time()
    while time.process_time() - spent < 0.05:
        pass
    return seconds * max(1.0, (time.perf_counter() - began) / 0.05)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return once `condition` holds; fails when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        await asyncio.sleep(0.01)
