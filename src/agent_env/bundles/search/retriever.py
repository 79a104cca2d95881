"""What finds passages: the protocol of a retriever, and what it raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_env.errors import AgentEnvError

from .passages import Passage


class RetrieverFailed(AgentEnvError):
    """No answer could be had: the environment's failure, so that the episode is played again, never an empty result."""


class Retriever(Protocol):
    """Finds passages."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` best passages for each query, best first; fewer, or none, where no more are found.

        Raises:
            RetrieverFailed: it cannot tell.
        """
        ...
