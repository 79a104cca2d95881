"""Progress in a log: now and then a line, and one at the end of each part."""

from agent_env.cli.progress import progress_bars


def test_a_log_has_a_line_for_each_part_that_ended(capsys):
    with progress_bars() as tell:
        for done in range(1, 501):
            tell("learning", done, 500)
        tell("playing", 1, 2)
    assert capsys.readouterr().err == "learning: 500 of 500\n"


def test_a_long_part_says_how_far_it_is(capsys):
    with progress_bars(every=0.0) as tell:
        for done in range(1, 4):
            tell("learning", done, 3)
    assert capsys.readouterr().err == "learning: 1 of 3\nlearning: 2 of 3\nlearning: 3 of 3\n"
