"""The generator of days: its parts by hand, and the days it has drawn for ever."""

import datetime
import hashlib

import numpy as np
import pytest

from agent_env import load_bundle
from agent_env.bundles.gridsim.day import HOURS, draw_day, make_day


def constant(value):
    return lambda count: np.full(count, value)


def test_a_day_without_noise_is_the_sum_of_its_parts():
    # Uniforms of 0.5 are normal deviates of 0: no wind, no spike, clouds that let (0.15 + 0.85/2) = 0.575 through.
    day = make_day(constant(0.5))
    assert day.date == datetime.date(2025, 7, 2)  # 182 days after 1 January; a Wednesday
    # Day 183 of the year: winter = cos(2π·168/365) = -0.969048. Half of the daylight: 6.1 + 1.938096 = 8.038096 h.
    assert day.solar[12] == pytest.approx(5.0 * 0.988857 * 0.575, abs=1e-3)  # half past twelve: the sun at its height
    # 17:30 is 5 h later: cos(π/2 · 5/8.038096) = cos(0.977105) = 0.559562.
    assert day.solar[17] == pytest.approx(5.0 * 0.988857 * 0.575 * 0.559562, abs=1e-3)
    assert day.solar[:4].tolist() == [0, 0, 0, 0]  # sunrise at 4:28
    assert day.solar[21:].tolist() == [0, 0, 0]  # sunset at 20:32
    # Demand at 12:30 on a working day: 0.2 + 0.75 (0.8 e^-(4.5/2.2)² + e^-(6.5/2.8)²) = 0.2 + 0.75 · 0.016757.
    assert day.load[12] == pytest.approx((3.6 - 0.6 * 0.969048) * (0.65 + 0.7 * 0.212568), abs=1e-3)
    price = 84 - 10 * 0.969048 + 65 * (0.212568 - 0.5) - 80 * 0.988857 * 0.575
    assert day.price[12] == pytest.approx(price, abs=0.01)


def test_weekends_start_later_and_are_lower():
    # 0.5068 · 365 = 184.98: Friday 4 July, and 0.507 · 365 = 185.06: Saturday 5 July.
    friday, saturday = make_day(constant(0.5068)), make_day(constant(0.507))
    assert (friday.date.weekday(), saturday.date.weekday()) == (4, 5)
    assert np.argmax(friday.load[:12]) == 7
    assert np.argmax(saturday.load[:12]) == 9
    assert saturday.load.mean() < 0.95 * friday.load.mean()


def test_a_spike_lasts_one_or_two_hours():
    # The draw of four is the spike's: it happens, at 6 + int(16 · 0.5) = 14 o'clock, for 1 + int(2 · 0.6) = 2 hours, by
    # 60 + 120 · 0.5 = 120 EUR/MWh.
    spiked = make_day(lambda count: np.array([0.1, 0.5, 0.6, 0.5]) if count == 4 else np.full(count, 0.5))
    rise = spiked.price - make_day(constant(0.5)).price
    assert rise.tolist() == pytest.approx([0.0] * 14 + [120.0] * 2 + [0.0] * 8, abs=1e-9)


def test_noise_is_stationary():
    """Over many days the wind's effect on the price has the spread it was given in the first hour and in the last."""
    nights = np.array([draw_day(seed).price[[0, 23]] for seed in range(1500)])
    winter = np.array([np.cos(2 * np.pi * (draw_day(s).date.timetuple().tm_yday - 15) / 365) for s in range(1500)])
    noise = nights - 10 * winter[:, None]
    assert noise[:, 0].std() == pytest.approx(np.hypot(26, 5), rel=0.06)
    assert noise[:, 1].std() == pytest.approx(np.hypot(26, 5), rel=0.12)  # spikes and weekends are in the last hour too


def test_a_day_is_drawn_from_numpys_promised_stream():
    # The first double of PCG64(0) is 0.6369616873214543: day 232.49 of the year.
    assert draw_day(0).date == datetime.date(2025, 8, 21)


def test_days_are_shared_and_cannot_be_changed():
    day = draw_day(3)
    assert day is draw_day(3)
    for values in (day.price, day.load, day.solar):
        assert values.shape == (HOURS,)
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


@pytest.mark.parametrize(
    ("split", "digest"),
    [
        ("train", "5421f60f4717dbf69f9de9e34cc570b4da59fd818bdb62780bf680c05026ca70"),
        ("eval", "de18f4592b20d058b5cebcfc58d68827c6b021e385ee689a6514a966b68505f9"),
    ],
)
def test_the_days_are_fixed_for_ever(split, digest):
    """Every figure ever quoted is of these days: whoever changes the generator makes another environment."""
    lines = []
    for task in load_bundle("gridsim").tasks(split):
        day = draw_day(task.env["day"])
        cents_and_kilowatts = np.rint(np.concatenate([day.price * 100, day.load * 1000, day.solar * 1000]))
        lines.append(f"{day.date} {' '.join(str(int(value)) for value in cents_and_kilowatts)}\n")
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == digest
