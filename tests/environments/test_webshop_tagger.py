"""WebShop's reward with the nouns that spaCy finds, as official products need it."""

import pytest

from agent_env.bundles.webshop.official import _nouns
from support.webshop_shop import GOLDEN, expected, scored


@pytest.mark.parametrize("case", GOLDEN["reward_cases"])
def test_the_originals_rewards(case):
    assert scored(case, _nouns) == pytest.approx(expected(case), abs=1e-12)


def test_nouns_are_in_lower_case_and_no_other_word_is_one():
    assert _nouns("Ceramic Coffee Mug with the handle") == ("coffee", "mug", "handle")  # ceramic is an adjective
    assert _nouns("the of and") == ()
