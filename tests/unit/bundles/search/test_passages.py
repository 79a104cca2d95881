"""Passages as they are cut, shown and read again."""

from agent_env.bundles.search.passages import NOTHING, Passage, pieces, read_shown, shown


def test_what_is_shown_is_read_again():
    passages = [
        Passage("France: Government", "Capital: Paris\nType: republic"),
        Passage("Paris (city)", "A city."),
    ]
    text = shown(passages)
    assert text == (
        "Doc 1 (Title: France: Government)\nCapital: Paris\nType: republic\n\nDoc 2 (Title: Paris (city))\nA city."
    )
    assert read_shown(text) == passages
    assert shown([]) == NOTHING
    assert read_shown(NOTHING) == []


def test_a_long_text_is_cut_between_sentences():
    text = "One is here. Two is there. Three is a longer sentence than that."
    assert [piece.text for piece in pieces("t", text, 27)] == [
        "One is here. Two is there.",
        "Three is a longer sentence ",
        "than that.",
    ]
    assert {piece.title for piece in pieces("t", text, 27)} == {"t"}
    assert pieces("t", text, 800) == [Passage("t", text)]
    assert pieces("t", "  ", 800) == []


def test_no_character_is_lost():
    text = "A. " + "b" * 50 + ' c. "D" e.'
    assert "".join(piece.text for piece in pieces("t", text, 20)).replace(" ", "") == text.replace(" ", "")
