"""How long calls of many sessions take, in one period and in another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from support.servers import Client

PAUSE = 0.02
"""Seconds between two calls of one session."""


@dataclass
class Bystanders:
    """Sessions that go on calling, one after another, while something happens to others."""

    guests: list[Client]

    async def latencies(self, during: Callable[[], Awaitable[object]], at_least: float) -> list[float]:
        """Seconds that each call took while `during` ran, and for `at_least` seconds."""
        took: list[float] = []
        over = asyncio.Event()

        async def go_on(guest: Client) -> None:
            while not over.is_set():
                began = time.perf_counter()
                assert await guest.text("echo", text="unhurt") == "unhurt"
                took.append(time.perf_counter() - began)
                await asyncio.sleep(PAUSE)

        async with asyncio.TaskGroup() as group:
            for guest in self.guests:
                group.create_task(go_on(guest))
            try:
                await asyncio.gather(during(), asyncio.sleep(at_least))
            finally:
                over.set()
        return took


def p99(seconds: list[float]) -> float:
    """The 99th percentile."""
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]
