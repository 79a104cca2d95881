"""The games as episodes: splits, scores, what is fixed for ever, and the demonstrator."""

import pytest

from agent_env import Ended, Episode, load_bundle
from agent_env.hosting.local import LocalHandle
from support.text_games import fingerprint, first, pixels, played, success_rate

BUNDLE = load_bundle("gym_cards")
GAMES = ("number_line", "ez_points", "points24", "blackjack")


def test_the_splits():
    in_text = ["train", "eval", *(f"{part}-{game}" for game in GAMES for part in ("train", "eval"))]
    assert [*BUNDLE.splits] == [*in_text, *(f"{split}-pictures" for split in in_text)]
    for split, tasks in BUNDLE.splits.items():
        part, _, game = split.removesuffix("-pictures").partition("-")
        assert len(tasks) == (400 if part == "train" else 200)
        assert [task.env["game"] for task in tasks[:4]] == ([game] * 4 if game else [*GAMES])
    assert len({task.seed for task in BUNDLE.tasks("all")}) == 3000


def test_the_games_stay_what_they_are():
    assert fingerprint(BUNDLE) == "76aeb0ddd6d8a459"


def test_a_hand_of_points24_is_trained_or_evaluated_on():
    hands = {
        part: {first(BUNDLE, task).text for task in BUNDLE.tasks(f"{part}-points24")} for part in ("train", "eval")
    }
    assert not hands["train"] & hands["eval"]


async def test_an_episode_of_each_game_ends_with_its_success():
    task = BUNDLE.tasks("train-number_line")[0]
    (start,) = await played(BUNDLE, task)
    target, current = (int(line.split()[-1]) for line in start.text.splitlines())
    way = ["right" if target > current else "left"] * abs(target - current)
    seen = await played(BUNDLE, task, *way)
    assert [step.reward for step in seen[1:]] == [0.0] * (len(way) - 1) + [1.0]
    assert (seen[-1].terminated, seen[-1].info) == (True, {"success": True})
    assert seen[-1].text == f"{seen[-1].state}\nThe target is reached."
    lost = await played(BUNDLE, BUNDLE.tasks("train-points24")[0], "=")
    assert (lost[1].terminated, lost[1].reward, lost[1].info) == (True, 0.0, {"success": False})
    cut = await played(BUNDLE, task, *["stay"] * 10)
    assert (cut[-1].truncated, cut[-1].terminated, cut[-1].info) == (True, False, {"success": False})
    assert cut[-1].text == f"{start.text}\nNo steps are left."
    assert cut[-2].text == f"{start.text}\nThere is no such action: use left, right."


@pytest.mark.parametrize("game", GAMES)
async def test_a_game_in_pictures_is_the_game_in_text(game):
    in_text, shown = (BUNDLE.tasks(f"train-{game}{end}")[3] for end in ("", "-pictures"))
    actions = ["nothing", *first(BUNDLE, in_text).actions]
    seen, pictured = [await played(BUNDLE, task, *actions) for task in (in_text, shown)]
    seen, pictured = ([step for step in steps if step is not None] for steps in (seen, pictured))
    assert [step.state for step in pictured] == [step.state for step in seen]
    assert [step.reward for step in pictured] == [step.reward for step in seen]
    lines = 3 if game == "blackjack" else 2  # of text that the picture shows
    assert [step.text for step in pictured] == ["\n".join(step.text.splitlines()[lines:]) for step in seen]
    assert {pixels(step).shape for step in pictured} == {(300, 300, 3)}
    assert tuple(pixels(pictured[0])[0, 0]) == (0x35, 0x65, 0x4D)


async def test_the_demonstrator_plays_pictures():
    for game in ("number_line", "ez_points"):
        assert await success_rate(BUNDLE, f"eval-{game}-pictures", 0.0, most=30) == 1.0


async def test_the_score_is_the_success_and_not_the_reward():
    task = BUNDLE.tasks("train-ez_points")[0]
    for actions, score in ((["="], 0.0), ([], 0.0)):
        episode = Episode(BUNDLE, task, LocalHandle(BUNDLE))
        await episode.start()
        for action in actions:
            await episode.call("act", {"action": action})
        assert await episode.end_turn("done") == Ended(score, {"game": score})
        await episode.close()


def test_a_game_that_there_is_not():
    task = BUNDLE.tasks("train")[0]
    task.env["game"] = "poker"
    try:
        with pytest.raises(ValueError, match=r"game: expected number_line, .*, got 'poker'"):
            first(BUNDLE, task)
    finally:
        task.env["game"] = "number_line"


async def test_the_demonstrator_wins_what_can_be_won_and_errs_when_asked_to():
    for game in ("number_line", "ez_points"):
        assert await success_rate(BUNDLE, f"eval-{game}", 0.0) == 1.0
    assert await success_rate(BUNDLE, "eval-points24", 0.0, most=50) == 1.0
    assert 0.3 < await success_rate(BUNDLE, "eval-points24", 0.1, most=50) < 0.9
    assert await success_rate(BUNDLE, "eval-points24", 1.0, most=50) < 0.1
    assert 0.35 < await success_rate(BUNDLE, "eval-blackjack", 0.0) < 0.5  # basic strategy wins some 43 %
