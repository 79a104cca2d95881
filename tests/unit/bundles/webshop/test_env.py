"""Shopping: what is seen, what is worth what, how it ends, and the demonstrator."""

import pytest

from agent_env import Ended, Episode, load_bundle
from agent_env.bundles.webshop.env import NO_ACTION
from agent_env.hosting.local import LocalHandle
from support.text_games import demonstrated, first, played

BUNDLE = load_bundle("webshop")
TASK = BUNDLE.tasks("eval")[0]
GOAL = TASK.env["goal"]
TO_THE_PRODUCT = (f"search[{GOAL['name']}]", f"click[{GOAL['asin'].lower()}]")
CHOICES = [f"click[{value}]" for value in GOAL["options"]]


def test_the_first_page():
    seen = first(BUNDLE, TASK)
    assert (seen.text, seen.state, seen.actions) == ("'Search'", "'Search'", ("search[<your query>]",))
    assert (seen.reward, seen.over, seen.info) == (0.0, False, {})


async def test_a_purchase_that_fits_in_everything():
    seen = await played(BUNDLE, TASK, *TO_THE_PRODUCT, *CHOICES, "click[buy now]")
    results, product, last = seen[1], seen[2], seen[-1]
    assert results.text.startswith("'Back to Search' [SEP] 'Page 1 (Total results: 50)' [SEP] 'Next >' [SEP] 'B")
    assert results.actions[:3] == ("click[back to search]", "click[next >]", TO_THE_PRODUCT[1])
    assert len(results.actions) == 12
    assert "'Buy Now'" in product.text
    assert TASK.turns[0].prompt not in product.text  # the prompt says it already
    assert [step.reward for step in seen] == [0.0] * (len(seen) - 1) + [10.0]
    assert (last.terminated, last.truncated, last.info) == (True, False, {"success": True, "task_score": 1.0})
    assert last.text.startswith("Thank you for shopping with us!")
    assert seen[3].state == product.state == product.text  # as in WebShop, a page does not say what was chosen


async def test_a_purchase_that_does_not():
    last = (await played(BUNDLE, TASK, *TO_THE_PRODUCT, "click[buy now]"))[-1]
    share = (len(GOAL["attributes"]) + 1) / (len(GOAL["attributes"]) + len(GOAL["options"]) + 1)
    assert last.info == {"success": False, "task_score": pytest.approx(share)}
    assert (last.reward, last.terminated) == (0.0, True)


async def test_fifteen_steps_and_what_is_no_action():
    seen = await played(BUNDLE, TASK, "Click[Buy Now]", " SEARCH[ lamp ] ", *["look around"] * 13)
    assert seen[1].text == f"'Search'\n{NO_ACTION}"
    assert "Page 1" in seen[2].text
    assert seen[3].text == f"{seen[2].text}\n{NO_ACTION}"
    assert seen[3].state == seen[2].state
    assert [step.truncated for step in seen] == [False] * 15 + [True]
    assert seen[-1].text.endswith("\nNo steps are left.")
    assert (seen[-1].terminated, seen[-1].info) == (False, {"success": False, "task_score": 0.0})


@pytest.mark.parametrize(("bought", "success"), [(True, 1.0), (False, 0.0)])
async def test_the_score_is_the_success_and_webshops_reward_is_beside_it(bought, success):
    episode = Episode(BUNDLE, TASK, LocalHandle(BUNDLE))
    await episode.start()
    for action in (*TO_THE_PRODUCT, *CHOICES, *(["click[buy now]"] if bought else [])):
        await episode.call("act", {"action": action})
    ended = await episode.end_turn("done")
    assert ended == Ended(success, {"shop/success": success, "shop/task_score": success})
    await episode.close()


def test_the_splits_share_no_goal_and_no_seed():
    assert {split: len(tasks) for split, tasks in BUNDLE.splits.items()} == {"train": 1200, "eval": 300}
    train, evaluated = ({(task.env["goal"]["asin"]) for task in BUNDLE.tasks(split)} for split in ("train", "eval"))
    assert train.isdisjoint(evaluated)
    assert len({task.seed for task in BUNDLE.tasks("all")}) == 1500
    assert len({task.turns[0].prompt for task in BUNDLE.tasks("all")}) == 1500


async def test_the_demonstrator_buys_what_was_asked_for():
    tasks = [*BUNDLE.tasks("eval")[:60], *BUNDLE.tasks("train")[:60]]
    plays = [await demonstrated(BUNDLE, task, 0.0) for task in tasks]
    assert {play.ended.reward for play in plays} == {1.0}
    assert max(len(play.turns[0].moves) for play in plays) <= 6


async def test_the_demonstrator_goes_on_after_errors():
    plays = [await demonstrated(BUNDLE, task, 0.3) for task in BUNDLE.tasks("eval")[:60]]
    assert 0.6 < sum(play.ended.reward for play in plays) / 60 <= 1.0
    assert max(len(play.turns[0].moves) for play in plays) > 7
    assert (
        sum(play.ended.reward for play in [await demonstrated(BUNDLE, t, 1.0) for t in BUNDLE.tasks("eval")[:20]]) == 0
    )
