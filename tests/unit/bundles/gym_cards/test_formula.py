"""The parser and the search for solutions, by hand and against each other."""

from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.bundles.gym_cards.formula import can_make, solutions, value


@pytest.mark.parametrize(
    ("formula", "comes_to"),
    [
        ("7", 7),
        ("2 + 3 * 4", 14),
        ("( 2 + 3 ) * 4", 20),
        ("10 - 4 - 3", 3),
        ("8 / 4 / 2", 1),
        ("8 / ( 3 - 8 / 3 )", 24),  # exact: 8 / (1/3)
        ("1 / 3 + 2 / 3", 1),
        ("( ( 5 ) )", 5),
        ("1 - 9", -8),
        ("1 / 2", Fraction(1, 2)),
    ],
)
def test_what_a_formula_comes_to(formula, comes_to):
    assert value(formula.split()) == comes_to


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "+",
        "2 +",
        "2 3",
        "- 2",
        "2 * * 3",
        "2 / / 3",
        "( 2",
        "2 )",
        ") 2 (",
        "( )",
        "4 / ( 2 - 2 )",
        "x",
        "²",
        "2 ( 3 )",
    ],
)
def test_what_is_no_formula(formula):
    assert value(formula.split()) is None


def test_hands_of_24_by_hand():
    assert solutions((3, 3, 8, 8), 24) == (("8", "/", "(", "3", "-", "8", "/", "3", ")"),)
    assert [" ".join(s) for s in solutions((1, 5, 5, 5), 24)] == ["( 5 - 1 / 5 ) * 5", "5 * ( 5 - 1 / 5 )"]
    assert solutions((1, 1, 1, 1), 24) == ()
    assert solutions((6, 6), 12, "+*") == (("6", "+", "6"),)
    assert solutions((2, 6), 12, "+*") == (("2", "*", "6"), ("6", "*", "2"))


def test_566_of_the_715_hands_can_make_24():
    hands = [*combinations_with_replacement(range(1, 11), 4)]
    assert len(hands) == 715
    assert sum(can_make(hand, 24) for hand in hands) == 566


@given(st.lists(st.integers(1, 10), min_size=2, max_size=4), st.integers(1, 30))
def test_every_solution_comes_to_the_target_with_each_number_once(numbers, target):
    found = solutions(tuple(sorted(numbers)), target)
    assert bool(found) == can_make(tuple(sorted(numbers)), target)
    for formula in found:
        assert value(formula) == target
        assert sorted(int(symbol) for symbol in formula if symbol.isdigit()) == sorted(numbers)
    assert len({*found}) == len(found)
