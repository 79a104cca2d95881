"""A workshop: tools whose arguments, failures and delays the tests choose."""

import asyncio
import collections
from typing import Literal

from agent_env import Environment, Observation, ToolError, tool

PLAYED = collections.Counter()
"""Episodes begun, by task, in this server."""


class Workshop(Environment):
    """``task.env`` may say: `lost`, how many of the task's episodes fail in `fetch`; `shown`, a first observation."""

    def reset(self, task, seed):
        PLAYED[task.id] += 1
        self.task, self.episode, self.log = task, PLAYED[task.id], []
        return Observation(task.env["shown"]) if "shown" in task.env else None

    @tool
    async def order(
        self,
        count: int,
        price: float,
        note: str = "",
        urgent: bool = False,
        tags: list[str] | None = None,
        size: Literal["small", "large"] = "small",
    ) -> dict[str, object]:
        """Order something.

        Args:
            count: how many.
            price: of one.
            note: for the seller.
            urgent: whether it is.
            tags: to file it under.
            size: of it.
        """
        self.log.append("order")
        return {"count": count, "price": price, "note": note, "urgent": urgent, "tags": tags, "size": size}

    @tool
    async def write(self, text: str, seconds: float = 0.0) -> str:
        """Write a line into the log.

        Args:
            text: of the line.
            seconds: that it takes.
        """
        await asyncio.sleep(seconds)
        self.log.append(text)
        return " ".join(self.log)

    @tool
    async def repeat(self, text: str, times: int) -> str:
        """Say a text many times."""
        return text * times

    @tool
    async def fetch(self) -> str:
        """Fetch what the task is about."""
        if self.episode <= self.task.env.get("lost", 0):
            raise RuntimeError(f"the shelf fell down in episode {self.episode}")
        return f"fetched in episode {self.episode}"

    @tool
    async def look(self) -> Observation:
        """Look around."""
        return Observation("You see a bench.", images=["data:image/png;base64,iVBORw0KGgo="])

    @tool
    async def nothing(self) -> str:
        """Find nothing."""
        raise ToolError("there is nothing")

    async def score(self, reply):
        await asyncio.sleep(self.task.env.get("scoring", 0.0))
        return {"lines": min(len(self.log), 4) / 4, "length": min(len(reply), 10) / 10}
