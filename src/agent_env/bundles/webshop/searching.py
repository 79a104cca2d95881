"""The shop's search: BM25 over what is written of each product, as Lucene ranks it (Robertson and Zaragoza, 2009).

WebShop searches with Lucene's Porter stemmer; here plurals alone are cut off (Harman, 1991, "How effective is
suffixing?", the s stemmer). k1, b, the stop words and the number of results are WebShop's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from agent_env.extras import imported

RESULTS = 50
_K1, _B = 0.9, 0.4
_WORD = re.compile(r"\w+")
_STOP = {
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of"),
    *(
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ),
}


class Index:
    """Finds texts by words. Raises MissingExtra without bm25s.

    Args:
        texts: at least one with a word in it.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._bm25 = imported("bm25s", "webshop").BM25(method="lucene", k1=_K1, b=_B)
        self._bm25.index([words(text) for text in texts], show_progress=False)

    def search(self, query: str) -> list[int]:
        """Places of the `RESULTS` texts that fit best, the best first; of equal ones the earlier first."""
        asked = [word for word in words(query) if word in self._bm25.vocab_dict]
        if not asked:
            return []
        scores = self._bm25.get_scores(asked)
        found = np.flatnonzero(scores > 0)
        if len(found) > RESULTS:  # the sort below is then of these and what ties with the last
            found = found[scores[found] >= np.partition(scores[found], -RESULTS)[-RESULTS]]
        return [int(place) for place in found[np.argsort(-scores[found], kind="stable")][:RESULTS]]


def words(text: str) -> list[str]:
    """The words that count, in lower case and in the singular."""
    return [_singular(word) for word in _WORD.findall(text.lower()) if word not in _STOP]


def _singular(word: str) -> str:
    if len(word) < 4:
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word[:-1] if word.endswith("s") and not word.endswith(("us", "ss")) else word
