"""Retrieval by the words that a passage shares with a query: BM25 (Robertson and Zaragoza 2009, Lucene's form)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_env.extras import imported

from .passages import Passage


def library() -> Any:
    """bm25s. Raises MissingExtra without it."""
    return imported("bm25s", "search")


class Bm25:
    """A `Retriever`; passages that share no word with the query are not found.

    Args:
        folder: of an index that `build` made of the same passages; it stays on disk, and is mapped into memory.
    """

    def __init__(self, passages: Sequence[Passage], folder: Path) -> None:
        self._passages = passages
        self._index = library().BM25.load(folder, mmap=True, load_corpus=False)

    @staticmethod
    def build(passages: Sequence[Passage], folder: Path) -> None:
        """Index passages into a folder that is not there yet."""
        bm25s = library()
        index = bm25s.BM25(method="lucene")
        index.index(_words([passage.whole for passage in passages]), show_progress=False)
        index.save(folder)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` best passages for each query, best first; equally good ones in the order of the passages."""
        return [[self._passages[place] for place in places] for places in self.places(queries, k)]

    def places(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Their places among the passages."""
        words = _words(queries)
        found: list[list[int]] = [[] for _ in queries]
        known = [n for n, query in enumerate(words) if self._knows(query)]
        if known:
            places, scores = self._index.retrieve(
                [words[n] for n in known], k=min(k, len(self._passages)), show_progress=False
            )
            for n, row, values in zip(known, places, scores, strict=True):
                scored = zip(values, row, strict=True)
                ranked = sorted((-float(value), int(place)) for value, place in scored if value > 0)
                found[n] = [place for _, place in ranked]
        return found

    def _knows(self, query: Sequence[str]) -> bool:
        return any(word in self._index.vocab_dict for word in query)


def _words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, without accents and frequent ones."""
    plain = [_plain(text) for text in texts]
    words: list[list[str]] = library().tokenize(plain, stopwords="en", return_ids=False, show_progress=False)
    return words


def _plain(text: str) -> str:
    """Without accents, which questions are often written without."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
