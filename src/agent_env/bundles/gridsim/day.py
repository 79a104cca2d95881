"""A day of the small grid: 24 hours of price, load and solar, drawn from one seed and fixed for ever.

A day is a date (so a season and a weekday), the cloud and wind of that date, and what they do to the price: people use
more in the morning and evening, less at weekends; sun pushes the price down at noon, wind at any hour, and together
they push it below zero. The wind's level drifts through the day, so the cheap hours are not where they were yesterday.

Randomness is PCG64's stream of uniforms alone (numpy promises that stream; its normal deviates may change with a
release), and every value is rounded to what a forecast would give, so a day is the same on every machine.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

HOURS = 24
YEAR = 2025

Hourly = NDArray[np.float64]
Uniform = Callable[[int], Hourly]
"""Draws that many numbers, uniform in [0, 1)."""


@dataclass(frozen=True)
class Day:
    """One day.

    Args:
        date: of the year 2025; its season and weekday shape the day.
        price: EUR/MWh, to the cent, shape (24,); may be negative.
        load: MW drawn by the grid's customers, to the kW, shape (24,).
        solar: MW from the grid's own panels, to the kW, shape (24,).
    """

    date: datetime.date
    price: Hourly
    load: Hourly
    solar: Hourly


@lru_cache(maxsize=1024)
def draw_day(seed: int) -> Day:
    """The day of a seed, a non-negative integer. Its arrays are read-only: episodes share them."""
    return make_day(np.random.Generator(np.random.PCG64(seed)).random)


def make_day(uniform: Uniform) -> Day:
    """The day that a source of uniform numbers in [0, 1) comes to."""
    date = datetime.date(YEAR, 1, 1) + datetime.timedelta(days=int(uniform(1)[0] * 365))
    winter = float(np.cos(2 * np.pi * (date.timetuple().tm_yday - 15) / 365))  # 1 in mid-January, -1 in mid-July
    weekend = date.weekday() >= 5

    demand = _demand(weekend)
    sun = _sun(uniform, winter)
    wind = _drift(uniform, spread=1.0, memory=0.85)

    load = (3.6 + 0.6 * winter) * (0.65 + 0.7 * demand) * (1 + _drift(uniform, spread=0.05, memory=0.6))
    solar = 5.0 * sun
    price = 84 + 10 * winter + 65 * (demand - 0.5) - 80 * sun - 26 * wind + 5 * _normal(uniform, HOURS)
    price = np.clip(price + _spike(uniform), -90.0, 480.0)
    return Day(date, _fixed(price, 2), _fixed(load, 3), _fixed(solar, 3))


def _demand(weekend: bool) -> Hourly:
    """How busy people are, 0..1, shape (24,): a morning and an evening peak, later and lower at weekends."""
    morning, evening = (10.0, 19.5) if weekend else (8.0, 19.0)
    hours = np.arange(HOURS) + 0.5
    busy: Hourly = 0.8 * np.exp(-(((hours - morning) / 2.2) ** 2)) + np.exp(-(((hours - evening) / 2.8) ** 2))
    return (0.2 + 0.75 * busy) * (0.8 if weekend else 1.0)


def _sun(uniform: Uniform, winter: float) -> Hourly:
    """The sun on the panels as a share of a clear noon in July, 0..1, shape (24,)."""
    hours = np.arange(HOURS) + 0.5
    half_daylight = 6.1 - 2.0 * winter
    height: Hourly = np.cos(np.pi / 2 * np.clip((hours - 12.5) / half_daylight, -1, 1))
    clear = 0.15 + 0.85 * uniform(1)[0]
    clouds: Hourly = np.clip(clear * (1 + _drift(uniform, spread=0.25, memory=0.5)), 0.05, 1.0)
    return (0.64 - 0.36 * winter) * height * clouds


def _spike(uniform: Uniform) -> Hourly:
    """EUR/MWh, shape (24,): on one day in eight, one or two hours in which a power station is missing."""
    happens, hour, length, height = uniform(4)
    spike = np.zeros(HOURS)
    if happens < 0.125:
        first = 6 + int(hour * 16)
        spike[first : first + 1 + int(length * 2)] = 60 + 120 * height
    return spike


def _drift(uniform: Uniform, *, spread: float, memory: float) -> Hourly:
    """A stationary AR(1) series, shape (24,), with standard deviation `spread`."""
    steps = _normal(uniform, HOURS)
    series = np.empty(HOURS)
    series[0] = steps[0]
    for hour in range(1, HOURS):
        series[hour] = memory * series[hour - 1] + np.sqrt(1 - memory**2) * steps[hour]
    return spread * series


def _normal(uniform: Uniform, count: int) -> Hourly:
    return np.asarray(ndtri(np.clip(uniform(count), 1e-12, 1 - 1e-12)), dtype=np.float64)


def _fixed(values: Hourly, decimals: int) -> Hourly:
    rounded = np.round(values, decimals) + 0.0  # + 0.0 makes a rounded -0.0 a plain zero
    rounded.setflags(write=False)
    return rounded
