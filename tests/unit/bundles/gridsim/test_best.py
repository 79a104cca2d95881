"""The linear program and the grade against days solved by hand, and the law that no plan beats the program."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env import load_bundle
from agent_env.bundles.gridsim.battery import LETTERS, run_plan, settle
from agent_env.bundles.gridsim.best import grade, least_cost, least_cost_of
from agent_env.bundles.gridsim.day import Day, draw_day

LOSS = math.sqrt(0.9)


def day_of(price, load=3.0, solar=0.0):
    hours = [np.broadcast_to(np.asarray(values, dtype=float), 24) for values in (price, load, solar)]
    return Day(datetime.date(2025, 1, 1), *hours)


CHEAP_THEN_DEAR = day_of([20.0] * 12 + [100.0] * 12)


def test_cheap_morning_dear_evening():
    # From 2 MWh to 4 at 20, back to 2 at 100.
    without = 3 * 12 * (20 + 100)
    assert least_cost(CHEAP_THEN_DEAR) == pytest.approx(without + 2 * 20 / LOSS - 2 * 100 * LOSS)
    assert run_plan(CHEAP_THEN_DEAR, "CC" + "H" * 10 + "DD" + "H" * 10).cost == pytest.approx(
        least_cost(CHEAP_THEN_DEAR)
    )


def test_a_negative_price_pays_for_turning_the_charge_over():
    # At -10 all day: an hour of C earns 10/η, an hour of D costs 10 η; 24 hours that end full are 13 of C and 11 of D.
    day = day_of(-10.0)
    assert least_cost(day) == pytest.approx(-24 * 3 * 10 - 13 * 10 / LOSS + 11 * 10 * LOSS)
    assert run_plan(day, "CD" * 11 + "CC").cost == pytest.approx(least_cost(day))


def test_buying_and_selling_at_once_pays_at_no_price():
    # Were export paid 0.9 of a negative price, import and export of the same MWh would earn 1 without end.
    day = day_of(-10.0, load=0.0, solar=1.0)
    assert least_cost(day) == pytest.approx(24 * 10 - 13 * 10 / LOSS + 11 * 10 * LOSS)


def test_export_is_worth_nine_tenths():
    # No load: the charge above the reserve is bought at 20 and exported at 90.
    assert least_cost(day_of([20.0] * 12 + [100.0] * 12, load=0.0)) == pytest.approx(2 * 20 / LOSS - 2 * 90 * LOSS)


def test_grades():
    best = least_cost(CHEAP_THEN_DEAR)

    def of(plan):
        return grade(CHEAP_THEN_DEAR, run_plan(CHEAP_THEN_DEAR, plan).cost, best)

    assert of("H" * 24) == 0.0
    assert of("CC" + "H" * 10 + "DD" + "H" * 10) == pytest.approx(1.0)
    assert of("C" + "H" * 11 + "D" + "H" * 11) == pytest.approx(0.5)  # one of the two cycles
    assert of("H" * 12 + "DDCC" + "H" * 8) == 0.0  # worse than without: clipped


def test_a_day_on_which_the_battery_cannot_help():
    flat = day_of(50.0)
    assert least_cost(flat) == pytest.approx(24 * 3 * 50)
    assert grade(flat, run_plan(flat, "H" * 24).cost, least_cost(flat)) == 1.0
    assert grade(flat, run_plan(flat, "CD" + "H" * 22).cost, least_cost(flat)) == 0.0


def test_every_day_of_the_bundle_has_much_to_gain():
    for task in load_bundle("gridsim").tasks("all"):
        day = draw_day(task.env["day"])
        assert settle(day, np.zeros(24)) - least_cost_of(task.env["day"]) > 50


@settings(max_examples=200)
@given(seed=st.integers(0, 2**31), plan=st.text(alphabet=LETTERS, min_size=24, max_size=24))
def test_no_plan_beats_the_program(seed, plan):
    day = draw_day(seed)
    assert run_plan(day, plan).cost >= least_cost(day) - 1e-6


prices = st.lists(st.floats(-500, 500), min_size=24, max_size=24)
powers = st.lists(st.floats(0, 20), min_size=24, max_size=24)


@settings(max_examples=200)
@given(price=prices, load=powers, solar=powers, plan=st.text(alphabet=LETTERS, min_size=24, max_size=24))
def test_no_plan_beats_the_program_on_any_day_at_all(price, load, solar, plan):
    day = day_of(price, load, solar)
    assert run_plan(day, plan).cost >= least_cost(day) - 1e-5
