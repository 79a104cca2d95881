"""TextWorld's generated quests on its own engine."""

from collections import Counter

import pytest

from agent_env import load_bundle
from agent_env.bundles.textworld.game import _clean
from agent_env.bundles.textworld.making import LEVELS, compiled, generate
from support.text_games import demonstrated, played

# jericho has a list of published games; TextWorld silences it for good where pytest does not undo that.
pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


def test_kinds_and_levels_in_turn_and_no_game_in_both_splits():
    bundle = load_bundle("textworld")
    assert [len(bundle.tasks(split)) for split in ("train", "eval")] == [90, 30]
    for split in ("train", "eval"):
        counts = Counter((task.env["kind"], task.env["level"]) for task in bundle.tasks(split))
        assert set(counts) == {(kind, level) for kind, levels in LEVELS.items() for level in levels}
        each = [sum(counts[kind, level] for level in LEVELS[kind]) for kind in LEVELS]
        assert max(each) - min(each) <= 1
    assert {task.env["seed"] for task in bundle.tasks("train")}.isdisjoint(
        task.env["seed"] for task in bundle.tasks("eval")
    )


@pytest.mark.parametrize("kind", LEVELS)
def test_a_game_is_made_by_its_seed_and_is_what_its_task_says(kind):
    task = next(task for task in load_bundle("textworld").tasks("train") if task.env["kind"] == kind)
    one, same = (generate(kind, task.env["level"], task.env["seed"]) for _ in range(2))
    other = generate(kind, task.env["level"], task.env["seed"] + 1)
    assert one == same
    assert one != other
    assert " ".join(one.objective.split()) == task.turns[0].prompt


@pytest.mark.parametrize(("kind", "level"), [("quest", 4), ("maze", 1)])
def test_kinds_that_there_are_not(kind, level):
    with pytest.raises(ValueError, match=f"got {kind!r} {level}"):
        generate(kind, level, 1)


def test_a_game_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path))
    game = compiled("coin", 3, 1)
    made = game.stat().st_mtime_ns
    assert sorted(file.suffix for file in game.parent.iterdir()) == [".json", ".ni", ".z8"]
    assert compiled("coin", 3, 1).stat().st_mtime_ns == made


@pytest.mark.parametrize("kind", LEVELS)
async def test_a_won_game_and_what_a_trainer_sees_of_it(kind):
    bundle = load_bundle("textworld")
    task = next(task for task in bundle.tasks("eval") if task.env["kind"] == kind)
    moves = (await demonstrated(bundle, task, 0.0)).turns[0].moves
    actions = [move.calls[0].arguments["action"] for move in moves]
    seen = await played(bundle, task, *actions)
    assert seen[0].text.startswith("-= ")
    assert seen[0].state.startswith(f"{seen[0].text}\nYou are carrying")
    assert all(action in before.actions for action, before in zip(actions, seen, strict=False))
    assert [observation.reward for observation in seen] == [0.0] * len(actions) + [10.0]
    assert [observation.terminated for observation in seen] == [False] * len(actions) + [True]
    assert seen[-1].info == {"success": True}
    assert "*** The End ***" in seen[-1].text
    assert not any(">" in observation.text or "RESTART" in observation.text for observation in seen)


async def test_what_is_not_understood_takes_a_step_and_fifty_are_the_end():
    bundle = load_bundle("textworld")
    seen = await played(bundle, bundle.tasks("eval")[0], *["fly to the moon"] * 50)
    assert len({observation.state for observation in seen}) == 1
    assert [observation.truncated for observation in seen] == [False] * 50 + [True]
    assert seen[-1].info == {"success": False}


async def test_the_demonstrator_finds_its_way_after_errors():
    bundle = load_bundle("textworld")
    coins = [task for task in bundle.tasks("eval") if task.env["kind"] == "coin"][:4]
    plays = [await demonstrated(bundle, task, 0.3) for task in coins]
    assert [play.ended.reward for play in plays] == [1.0] * 4


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "\n\n-= Lounge =-\nA lounge.\n\n\n\nGo east.\n\n\n\n>      -= Lounge =-0/2",
            "-= Lounge =-\nA lounge.\n\nGo east.",
        ),
        (
            "\nYou take it.\n\n\n   *** The End ***\n\nIn 6 turns.\n\n\nWould you like to RESTART?\n>   -= A =-0/5",
            "You take it.\n\n*** The End ***\n\nIn 6 turns.",
        ),
        ("That's not a verb.\n\n>  -= Bath-Room =-1/12\n", "That's not a verb."),
    ],
)
def test_what_is_left_out_of_a_games_text(text, cleaned):
    assert _clean(text) == cleaned
