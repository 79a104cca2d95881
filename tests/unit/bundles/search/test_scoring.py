"""Exact match and F1, worked out by hand, and which answer of a reply is the model's."""

import pytest

from agent_env.bundles.search.scoring import exact_match, f1, last_answer, normalised


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Great-Gatsby!", "greatgatsby"),
        ("an apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("Theatre", "theatre"),
        (" the ", ""),
        ("Café, 1,234 €", "café 1234 €"),
    ],
)
def test_what_counts_in_a_text(text, normal):
    assert normalised(text) == normal


def test_an_exact_match_is_with_any_accepted_answer():
    assert exact_match("the EUROS.", ["euro", "euros"]) == 1.0
    assert exact_match("50 euros", ["euro", "euros"]) == 0.0
    assert exact_match("", ["a"]) == 0.0  # which is an article, and so nothing as well
    assert exact_match("x", []) == 0.0


def test_f1_is_of_the_nearest_accepted_answer():
    # 2 words of 3 are right, and 2 of the 2 wanted are there: 2 * (2/3) * 1 / (2/3 + 1).
    assert f1("Georges Bizet himself", ["Bizet", "Georges Bizet"]) == pytest.approx(0.8)
    assert f1("Bizet Bizet", ["Bizet"]) == pytest.approx(2 / 3)
    assert f1("the Bizet", ["Bizet"]) == 1.0
    assert f1("Verdi", ["Bizet"]) == f1("", ["Bizet"]) == f1("Verdi", []) == 0.0


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("<answer>Lyon</answer> or rather <answer> Paris </answer>", "Paris"),
        ("<think>It says <answer>Lyon</answer>.</think>Paris", "Paris"),
        ("<answer>Lyon</answer></think><ANSWER>Paris</ANSWER>", "Paris"),
        ("Doc 1 says <answer>Lyon", "Doc 1 says <answer>Lyon"),
        ("<answer></answer>", ""),
        ("", ""),
    ],
)
def test_the_last_answer_is_the_models(reply, answer):
    assert last_answer(reply) == answer
