"""What a plan makes the battery do, and what the day then costs: all by hand."""

import datetime
import math

import numpy as np
import pytest

from agent_env.bundles.gridsim.battery import Clip, drawn, export_price, run_plan, settle
from agent_env.bundles.gridsim.day import Day

LOSS = math.sqrt(0.9)


def day_of(price=50.0, load=3.0, solar=0.0):
    hours = [np.broadcast_to(np.asarray(values, dtype=float), 24) for values in (price, load, solar)]
    return Day(datetime.date(2025, 1, 1), *hours)


def test_holding_costs_the_load():
    outcome = run_plan(day_of(), "H" * 24)
    assert outcome.ran == "H" * 24
    assert outcome.clips == ()
    assert outcome.cost == pytest.approx(24 * 3 * 50)


def test_a_charge_and_a_discharge_each_lose_a_root_of_the_round_trip():
    price = [10.0, 100.0] + [50.0] * 22
    outcome = run_plan(day_of(price), "CD" + "H" * 22)
    assert outcome.clips == ()
    assert outcome.cost == pytest.approx(3 * (10 + 100 + 22 * 50) + 10 / LOSS - 100 * LOSS)
    assert drawn("CHD").tolist() == pytest.approx([1.0540926, 0, -0.9486833])


def test_a_full_battery_holds():
    outcome = run_plan(day_of(), "C" * 24)
    assert outcome.ran == "CC" + "H" * 22
    assert outcome.clips == tuple(Clip(hour, "H", "full") for hour in range(2, 24))


def test_an_empty_battery_holds_and_the_reserve_is_charged_in_the_last_hours():
    outcome = run_plan(day_of(), "DDD" + "H" * 21)
    assert outcome.ran == "DDH" + "H" * 19 + "CC"
    assert outcome.clips == (Clip(2, "H", "empty"), Clip(22, "C", "reserve"), Clip(23, "C", "reserve"))


def test_the_reserve_stops_a_discharge():
    outcome = run_plan(day_of(), "H" * 23 + "D")
    assert outcome.ran == "H" * 24
    assert outcome.clips == (Clip(23, "H", "reserve"),)
    outcome = run_plan(day_of(), "D" + "H" * 22 + "D")
    assert outcome.ran == "D" + "H" * 22 + "C"
    assert outcome.clips == (Clip(23, "C", "reserve"),)


def test_export_earns_a_tenth_less_and_never_more_than_the_price():
    assert export_price(np.array([100.0, 0.0, -10.0])).tolist() == [90.0, 0.0, -10.0]
    nothing = np.zeros(24)
    hour = [1.0] + [0.0] * 23
    assert settle(day_of(100.0 * np.array(hour), load=0, solar=2), nothing) == pytest.approx(-180)
    assert settle(day_of(-10.0 * np.array(hour), load=0, solar=2), nothing) == pytest.approx(20)
    assert settle(day_of(-10.0 * np.array(hour), load=2, solar=0), nothing) == pytest.approx(-20)


def test_a_discharge_beyond_the_load_is_exported():
    # Load 0.5 MW at 100: without the battery 50. It gives 0.9487: 0.4487 MWh is exported at 90.
    price, load = 100.0 * np.eye(24)[0], 0.5 * np.eye(24)[0]
    assert run_plan(day_of(price, load), "D" + "H" * 22 + "C").cost == pytest.approx(-(LOSS - 0.5) * 90)


@pytest.mark.parametrize("plan", ["", "C" * 23, "C" * 25, "c" * 24, "X" + "H" * 23])
def test_what_is_no_plan_is_refused(plan):
    with pytest.raises(ValueError, match="24 letters of C, H and D"):
        run_plan(day_of(), plan)
