"""What docs/text_environments.md shows is what the bundles show, and its table has every split that is measured."""

import re
from pathlib import Path

import pytest

from agent_env import load_bundle
from support.text_games import first

PAGE = (Path(__file__).parents[3] / "docs" / "text_environments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["key_door", "sokoban"])
def test_the_rooms_shown_are_the_first_of_train(name):
    bundle = load_bundle(name)
    assert f"```\n{first(bundle, bundle.tasks('train')[0]).text}\n```" in PAGE


def test_the_games_shown_are_the_first_of_train():
    bundle = load_bundle("gym_cards")
    for task in bundle.tasks("train")[:4]:
        (row,) = re.findall(rf"^\| `{task.env['game']}` \| (.*?) \|", PAGE, re.MULTILINE)
        assert row.replace("`", "").split(", ") == first(bundle, task).text.splitlines()


def test_its_table_is_of_splits_that_there_are():
    measured = set(re.findall(r"^\| `(\w+)` `([\w-]+)` \|", PAGE, re.MULTILINE))
    assert {name for name, _ in measured} == {"key_door", "sokoban", "gym_cards"}
    assert all(split in load_bundle(name).splits for name, split in measured)
