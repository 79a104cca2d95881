"""Retrieval by words and by meaning: the ranks of both, fused (Cormack, Clarke and Büttcher 2009)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from .bm25 import Bm25
from .dense import Dense
from .passages import Passage

DEPTH = 50
"""Passages of each ranking that are fused."""
RANK = 60
"""The constant of reciprocal rank fusion: a passage at rank r of a ranking, from 1, has a share of 1 / (RANK + r)."""


class Hybrid:
    """A `Retriever`."""

    def __init__(self, passages: Sequence[Passage], bm25: Bm25, dense: Dense) -> None:
        self._passages, self._both = passages, (bm25, dense)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` passages for each query that both rankings together put first."""
        rankings = [retriever.places(queries, DEPTH) for retriever in self._both]
        return [[self._passages[place] for place in fused(each)[:k]] for each in zip(*rankings, strict=True)]


def fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """One ranking of several, best first; of equal ones the lower number first."""
    shares: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, place in enumerate(ranking, 1):
            shares[place] += 1 / (RANK + rank)
    return sorted(shares, key=lambda place: (-shares[place], place))
