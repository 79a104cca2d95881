"""The search: BM25's order worked out by hand, ties, and words that do not count."""

import math

import numpy as np
import pytest

from agent_env.bundles.webshop.searching import Index, words


def test_words():
    assert words("The women's Batteries, 12 boxes of dresses & glass shoes!") == [
        *("women", "s", "battery", "12", "boxe", "dresse", "glass", "shoe"),
    ]


def test_the_order_is_bm25s():
    texts = ["red lamp", "red red lamp shade", "blue lamp", "vase"]
    index = Index(texts)
    # Robertson and Zaragoza with k1 = 0.9, b = 0.4: 4 texts, red in 2 of them, lengths 2, 4, 2, 1 (2.25 on average).
    weight = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    by_hand = [weight * n / (n + 0.9 * (0.6 + 0.4 * length / 2.25)) for n, length in ((1, 2), (2, 4))]
    assert index._bm25.get_scores(["red"]) == pytest.approx(np.array([*by_hand, 0, 0]), rel=1e-6)
    assert index.search("red") == [1, 0]
    assert index.search("Reds") == [1, 0]
    assert index.search("vase lamp") == [3, 0, 2, 1]


def test_equal_texts_are_found_in_their_order_and_fifty_at_most():
    index = Index([f"lamp {number % 2}" for number in range(200)])
    assert index.search("lamp") == [*range(50)]
    assert index.search("lamp 1") == [*range(1, 100, 2)]


@pytest.mark.parametrize("query", ["", "of the", "nonsense", "[]<>"])
def test_what_no_text_has_finds_nothing(query):
    assert Index(["a lamp", "a vase"]).search(query) == []
