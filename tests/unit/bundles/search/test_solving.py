"""Questions answered search by search."""

import pytest

from agent_env.bundles.search.passages import Passage
from agent_env.bundles.search.solving import Solver

MALI = Passage("Mali: Government", "Capital: Bamako")
TIMBUKTU = Passage("Timbuktu", "Timbuktu is an ancient city in Mali.")


def solved(question, *found):
    """What is searched for, and the answers, where the searches find this."""
    solving, asked = Solver(["Mali", "Niger"]).solve(question), []
    try:
        asked.append(next(solving))
        for passages in found:
            asked.append(solving.send(passages))
    except StopIteration as end:
        return asked, end.value
    return asked, None


@pytest.mark.parametrize(
    ("question", "found", "asked", "answers"),
    [
        ("What is the capital of Mali?", [[MALI]], ["Mali government capital"], ("Bamako",)),
        ("What is the capital of Mali?", [[TIMBUKTU]], ["Mali government capital"], ()),
        ("In which country does Timbuktu lie?", [[TIMBUKTU]], ["Timbuktu"], ("Mali",)),
        (
            "What is the capital of the country in which Timbuktu lies?",
            [[MALI, TIMBUKTU], [MALI]],
            ["Timbuktu", "Mali government capital"],
            ("Bamako",),
        ),
        ("What is the capital of the country in which Timbuktu lies?", [[MALI]], ["Timbuktu"], ()),
        (
            "How many airports does the country whose capital is Bamako have?",
            [[MALI], [Passage("Mali: Communications and transport", "Airports: 30 (2025)")]],
            ["Bamako government capital", "Mali communications and transport airports"],
            ("30",),
        ),
        (
            "How many airports does the country whose capital is Bamako have?",
            [[MALI, Passage("Niger: Government", "Capital: Bamako")]],
            ["Bamako government capital"],
            (),
        ),
        ("who got the first nobel prize in physics?", [], [], ()),
    ],
)
def test_what_is_searched_for_and_answered(question, found, asked, answers):
    assert solved(question, *found) == (asked, answers)
