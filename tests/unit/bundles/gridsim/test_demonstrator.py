"""The demonstrator: its plan by hand, its errors, and a whole play."""

import random

import pytest

from agent_env import Episode, load_bundle
from agent_env.bundles.gridsim.demonstrator import cheap_and_dear
from agent_env.demonstrator import play
from agent_env.hosting.local import LocalHandle

BUNDLE = load_bundle("gridsim")


def test_three_hours_each_way():
    prices = [5, 4, 3, 2, 1, 9, 9, 8, 12, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, -3, 20]
    forecast = f"price (ct/kWh): {' '.join(map(str, prices))}\nload (100 kW): 1 1"
    # Cheapest: hours 22 (-3), 4 (1), 3 (2). Dearest: 23 (20), 8 (12), and of 5 and 6 (both 9) the later.
    assert cheap_and_dear(forecast) == "HHHCCHDHD" + "H" * 13 + "CD"


async def demonstrated(index, error_rate, seed=0):
    episode = Episode(BUNDLE, BUNDLE.tasks("train")[index], LocalHandle(BUNDLE))
    try:
        return await play(episode, BUNDLE.demonstrator, random.Random(seed), error_rate)
    finally:
        await episode.close()


async def test_it_plays_a_day():
    (turn,) = (await demonstrated(0, error_rate=0.0)).turns
    forecast, submission = turn.moves
    assert submission.calls[0].arguments == {"plan": cheap_and_dear(forecast.answers[0].text)}
    assert turn.reply == "done"


async def test_errors_are_letters_drawn_anew():
    plans = [(await demonstrated(0, rate)).turns[0].moves[1].calls[0].arguments["plan"] for rate in (0.0, 0.3, 1.0)]
    differing = [sum(a != b for a, b in zip(plans[0], plan, strict=True)) for plan in plans]
    assert differing[0] == 0
    assert 0 < differing[1] < differing[2]  # a letter drawn anew is another one twice in three


async def test_errors_cost():
    means = []
    for rate in (0.0, 0.3, 1.0):
        rewards = [(await demonstrated(day, rate, seed=day)).ended.reward for day in range(60)]
        means.append(sum(rewards) / len(rewards))
    assert means[0] == pytest.approx(0.62, abs=0.06)
    assert means[0] - 0.15 > means[1] > means[2] + 0.15
