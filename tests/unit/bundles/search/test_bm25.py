"""BM25 over a few passages, and over an index on disk."""

import pytest

from agent_env.bundles.search.bm25 import Bm25
from agent_env.bundles.search.passages import Passage

PASSAGES = [
    Passage("Carmen", "An opera by Georges Bizet."),
    Passage("Côte d'Ivoire: Government", "Capital: Yamoussoukro"),
    Passage("Gold", "A chemical element with atomic number 79."),
    Passage("Silver", "A chemical element with atomic number 47."),
]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "bm25"
    Bm25.build(PASSAGES, folder)
    return Bm25(PASSAGES, folder)


def titles(bm25, *queries, k=3):
    return [[passage.title for passage in found] for found in bm25.search(queries, k)]


def test_the_best_come_first_and_what_shares_no_word_is_not_found(bm25):
    assert titles(bm25, "who composed the opera Carmen?") == [["Carmen"]]
    assert titles(bm25, "element with number 47") == [["Silver", "Gold"]]
    assert titles(bm25, "element with number 47", k=1) == [["Silver"]]
    assert titles(bm25, "chemical element") == [["Gold", "Silver"]]  # as good, and earlier


def test_titles_are_searched_without_regard_to_case_and_accents(bm25):
    assert titles(bm25, "COTE D'IVOIRE capital", "Cötè ivoire") == [["Côte d'Ivoire: Government"]] * 2


def test_queries_without_a_known_word_find_nothing(bm25):
    assert titles(bm25, "zebra", "", "the", "?!", "gold") == [[], [], [], [], ["Gold"]]


def test_more_may_be_asked_for_than_there_is(bm25):
    assert titles(bm25, "gold silver carmen", k=50) == [["Carmen", "Gold", "Silver"]]
