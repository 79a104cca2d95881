"""Playing a day: the forecast, plans good and bad, and what an episode earns."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from agent_env import Episode, load_bundle
from agent_env.bundles.gridsim.battery import run_plan, settle
from agent_env.bundles.gridsim.best import least_cost
from agent_env.bundles.gridsim.day import draw_day
from agent_env.hosting.local import LocalHandle

BUNDLE = load_bundle("gridsim")


@pytest.fixture
async def episode():
    episode = Episode(BUNDLE, BUNDLE.tasks("train")[7], LocalHandle(BUNDLE))
    assert await episode.start() is None
    yield episode
    await episode.close()


async def submit(episode, plan):
    return await episode.call("submit_schedule", {"plan": plan})


def test_four_hundred_days_to_train_on_and_two_hundred_others_to_evaluate_on():
    train, evaluated = BUNDLE.tasks("train"), BUNDLE.tasks("eval")
    assert (len(train), len(evaluated)) == (400, 200)
    assert len({task.env["day"] for task in [*train, *evaluated]}) == 600
    assert train[0].system_prompt.endswith("then reply with the word done.")
    assert train[0].turns[0].prompt == "Plan Thursday, 21 August."  # seed 0's day, see test_day
    assert train[0].name == "2025-08-21 (day 0)"


async def test_the_forecast_is_the_day_in_round_numbers(episode):
    day = draw_day(7)
    price, load, solar = (await episode.call("forecast", {})).text.splitlines()
    for line, name, values in (
        (price, "price (ct/kWh)", day.price / 10),
        (load, "load (100 kW)", day.load * 10),
        (solar, "solar (100 kW)", day.solar * 10),
    ):
        title, numbers = line.split(": ")
        assert title == name
        assert [int(number) for number in numbers.split(" ")] == np.round(values).tolist()
        assert "-0" not in numbers.split(" ")


async def test_a_plan_is_answered_with_its_cost_and_what_was_clipped(episode):
    cost = run_plan(draw_day(7), "D" * 24).cost
    answer = await submit(episode, "D" * 24)
    hours = [f"{hour} H empty" for hour in range(2, 22)]
    assert answer.text == f"cost: {cost:.0f} EUR\nclipped: {', '.join([*hours, '22 C reserve', '23 C reserve'])}"
    assert not answer.is_error
    assert (await submit(episode, "H" * 24)).text.endswith("\nclipped: nothing")


async def test_the_last_plan_counts(episode):
    day = draw_day(7)
    await submit(episode, "D" * 24)
    await submit(episode, "CCHHHHHHHHHHHHHHHHDDHHHH")
    without, best = settle(day, np.zeros(24)), least_cost(day)
    cost = run_plan(day, "CCHHHHHHHHHHHHHHHHDDHHHH").cost
    assert 0 < (without - cost) / (without - best) < 1
    ended = await episode.end_turn("Done.")
    assert ended.scores == {"grade": pytest.approx((without - cost) / (without - best))}
    assert ended.reward == ended.scores["grade"]


async def test_a_bad_plan_says_what_is_wrong_and_leaves_the_earlier_one(episode):
    await submit(episode, "CCHHHHHHHHHHHHHHHHDDHHHH")
    answer = await submit(episode, "CHx")
    assert answer.is_error
    assert answer.text == (
        "plan: it has 3 letters, 24 are due; only C, H, D are letters of a plan, not 'x'. "
        "The earlier plan, if there is one, stands."
    )
    assert (await episode.end_turn("done")).reward > 0


@pytest.mark.parametrize("reply", ["", "not yet", "done, or is it", "undone"])
async def test_a_plan_that_is_not_signed_off_earns_nothing(episode, reply):
    await submit(episode, "CCHHHHHHHHHHHHHHHHDDHHHH")
    assert (await episode.end_turn(reply)).reward == 0


@pytest.mark.parametrize("reply", ["done", " Done.\n", "The plan is submitted: done"])
async def test_an_episode_without_a_plan_earns_nothing(episode, reply):
    assert (await episode.end_turn(reply)).reward == 0


async def test_the_page_shows_what_happens():
    page = (Path(__file__).parents[4] / "docs" / "gridsim.md").read_text(encoding="utf-8")
    episode = Episode(BUNDLE, BUNDLE.tasks("train")[0], LocalHandle(BUNDLE))
    await episode.start()
    forecast = (await episode.call("forecast", {})).text
    assert textwrap.indent(forecast, "  ") in page
    plan = re.search(r'submit_schedule\(plan="(\w+)"\)', page)[1]
    assert textwrap.indent((await submit(episode, plan)).text, "  ") in page
    await episode.close()


async def test_the_episodes_seed_changes_nothing():
    texts = []
    for seed in (1, 2):
        episode = Episode(BUNDLE, BUNDLE.tasks("train")[3], LocalHandle(BUNDLE), seed)
        await episode.start()
        texts.append((await episode.call("forecast", {})).text)
        await episode.close()
    assert texts[0] == texts[1]
