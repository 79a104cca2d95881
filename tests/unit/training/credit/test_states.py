"""Which states are the same: exactly, as images, or by how alike their texts are."""

from __future__ import annotations

import difflib
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from agent_env.errors import InputError
from agent_env.training.credit import Steps, advantages, step_groups

TOLERANCE = 0.06
"""How far above difflib's ratio ours may be on observations of under 200 characters, as docs/credit.md says."""


def groups_of(states: Any, group: Any = None, **options: Any) -> list[int]:
    size = len(states)
    group = ["g"] * size if group is None else group
    return step_groups(Steps(group, range(size), [0] * size, [0] * size, [0] * size, states), **options).tolist()


def plain_clusters(texts: list[str], threshold: float) -> list[int]:
    """Greedy first fit as verl-agent does it, with difflib."""
    heads: list[str] = []
    clusters = []
    for text in texts:
        alike = (ratio(head, text) >= threshold for head in heads)
        number = next((number for number, is_like in enumerate(alike) if is_like), len(heads))
        heads += [text] if number == len(heads) else []
        clusters.append(number)
    return clusters


def ratio(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def same_partition(first: list[int], second: list[int]) -> bool:
    return len({*zip(first, second, strict=True)}) == len({*first}) == len({*second})


def test_exact_states() -> None:
    assert groups_of(["b", "a", "b", "B"]) == [0, 1, 0, 2]
    assert groups_of([("x", 1), ("x", 2), ("x", 1)]) == [0, 1, 0]
    assert groups_of(np.array([7, 3, 7])) == [1, 0, 1]
    assert groups_of([b"\x00", b"\x01", b"\x00"]) == [0, 1, 0]
    assert same_partition(groups_of(["a", "a", "a"], group=["g", "h", "g"]), [0, 1, 0])


def test_images_are_compared_by_their_bytes_and_their_form() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    other = image.copy()
    other[1, 1, 2] += 1
    states = [image, image.copy(), other, image.reshape(4, 1, 3), image.astype(np.int8), np.asfortranarray(image)]
    assert groups_of(states) == [0, 0, 1, 2, 3, 0]
    assert groups_of(np.stack([image, other, image])) == [0, 1, 0]


class Tensor:
    """What numpy can read, and what hashes by identity, as torch's tensors do."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array

    def __len__(self) -> int:
        return len(self.array)


def test_tensors_are_compared_by_what_they_hold() -> None:
    image = np.zeros((2, 2, 3), np.uint8)
    assert groups_of([Tensor(image), Tensor(image + 1), Tensor(image.copy())]) == [0, 1, 0]
    assert groups_of(["a", "a", "a"], group=Tensor(np.array([4, 4, 9]))) == [0, 0, 1]


def test_pil_images() -> None:
    image = pytest.importorskip("PIL.Image")
    red, red_too, blue = (image.new("RGB", (4, 4), color) for color in ("red", "red", "blue"))
    assert groups_of([red, red_too, blue]) == [0, 0, 1]


def test_similar_texts_join_the_oldest_cluster_whose_first_text_they_are_like() -> None:
    # In steps of one of 10 letters: each is 0.9 like its neighbours and 0.8 like the next but one.
    texts = ["aaaaaaaaaa", "aaaaaaaaab", "aaaaaaaabb", "aaaaaaabbb"]
    assert groups_of(texts, similarity=0.9) == [0, 0, 1, 1]
    assert groups_of(texts, similarity=0.8) == [0, 0, 0, 1]
    assert groups_of(texts, similarity=1.0) == [0, 1, 2, 3]
    assert groups_of(texts, group=["g", "h", "g", "h"], similarity=0.8) == [0, 1, 0, 1]


def test_similar_states_share_their_credit() -> None:
    texts = ["You see a red apple on table 1.", "You see a red apple on table 2.", "You are lost."]
    steps = Steps(["g"] * 3, ["t", "u", "v"], [0] * 3, [2.0, 0, 7], [0] * 3, texts, texts, success=[True] * 3)
    found = advantages("gigpo", steps, normalize="mean", similarity=0.9)
    assert found.tolist() == [1, -1, 0]
    assert not advantages("gigpo", steps, normalize="mean").any()
    for estimator in ("hgpo", "graphgpo"):
        advantages(estimator, steps, similarity=0.9)


ALPHABET = st.text("abc ", max_size=14)


@given(texts=st.lists(ALPHABET, min_size=1, max_size=8), threshold=st.floats(0.05, 1))
def test_the_clusters_are_difflibs_unless_a_pair_lies_between_the_two_ratios(
    texts: list[str], threshold: float
) -> None:
    """Ours is never under difflib's, so only pairs with difflib's under the threshold and ours not can differ."""
    between = False
    for first in texts:
        for second in texts:
            ours, theirs = Indel.normalized_similarity(first, second), ratio(first, second)
            assert ours >= theirs - 1e-12
            between |= theirs < threshold <= ours + 1e-9
    if not between:
        assert same_partition(groups_of(texts, similarity=threshold), plain_clusters(texts, threshold))


THINGS = ["apple", "mug", "knife", "plate", "sink", "fridge", "cabinet", "drawer", "countertop", "sofa", "lamp", "desk"]


def observation(rng: random.Random) -> str:
    things = [f"{thing} {rng.randint(1, 4)}" for thing in rng.sample(THINGS, rng.randint(1, 8))]
    return f"You arrive at {things[0]}. On the {things[0]}, you see a {', a '.join(things[1:])}."[:199]


def test_the_tolerance_that_the_page_states() -> None:
    rng = random.Random(0)
    gaps = []
    for _ in range(2000):
        first = second = observation(rng)
        for _ in range(rng.randint(0, 3)):
            second = second.replace(rng.choice(THINGS), rng.choice(THINGS), 1)
        if Indel.normalized_similarity(first, second) >= 0.9:
            gaps.append(Indel.normalized_similarity(first, second) - ratio(first, second))
    assert len(gaps) > 1000
    assert 0.0 < max(gaps) <= TOLERANCE
    assert np.mean(np.array(gaps) > 0.01) < 0.02


def test_a_long_text_that_differs_in_one_word_is_the_same_state() -> None:
    """difflib leaves out every character that makes over 1 % of a text of 200 and more, which is most of them."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=5)) for _ in range(250)]
    changed = [*words[:10], "fresh", *words[11:]]
    first, second = " ".join(words), " ".join(changed)
    assert len(first) == 1499
    assert ratio(first, second) < 0.2
    assert groups_of([first, second], similarity=0.95) == [0, 0]


def test_only_texts_are_similar() -> None:
    with pytest.raises(InputError, match="similarity: compares texts, and there are states of type int"):
        groups_of([1, 2], similarity=0.9)


def test_without_rapidfuzz_everything_but_similarity_works() -> None:
    program = """
import sys
sys.modules["rapidfuzz"] = None  # as if it were not installed
from agent_env.errors import MissingExtra
from agent_env.training.credit import Steps, step_groups
steps = Steps(["g"] * 2, [0, 1], [0, 0], [0, 0], [0, 0], ["a", "a"])
assert step_groups(steps).tolist() == [0, 0]
try:
    step_groups(steps, similarity=0.9)
except MissingExtra as error:
    assert "agentenv-rl[verl]" in str(error)
else:
    raise SystemExit("similarity without rapidfuzz")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
