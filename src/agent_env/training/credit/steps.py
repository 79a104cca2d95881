"""The rows that credit is given to, checked before any maths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from agent_env.errors import InputError, Problem
from agent_env.training.credit.labels import BoolArray, hashable, listed, missing, ranks
from agent_env.training.credit.rows import FloatArray, Rows

_SHOWN = 8  # rows that a problem names before it counts the rest
_TABLE = "give it one entry for each row"
_UNCOUNTED = "a row without one must not count: counts=False"


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a batch of trajectories, a row each, in any order; every field has one entry a row.

    Args:
        group: which trajectories are compared: a label of the task and its seed.
        trajectory: a label of the episode; each belongs to one group.
        step: the place of the row in its trajectory. Only its order counts; no two rows of a trajectory share one.
        step_reward: what the environment paid for the step.
        episode_reward: of the row's whole trajectory, the same on each of its rows.
        state: what the model saw before the step, by which steps are compared: any hashable, bytes, or an image (an
            array, a PIL image), which is compared by its bytes. Only step-level estimators need it.
        next_state: the state after the step. Only `graphgpo` needs it.
        valid: whether the action could be understood and played; None if all were. Invalid ones cost the estimator's
            ``invalid_penalty``.
        success: whether the row's trajectory reached its goal, the same on each of its rows. Only `graphgpo` needs it.
        counts: False for a row that only fills the batch (padding, copies) or belongs to a trajectory that failed: it
            gets an advantage of 0 and takes part in no statistic, and its other fields may hold anything. None if
            every row counts.

    Raises:
        InputError: with all problems, each with its field and rows: fields of different lengths, a row that counts
            with a reward that is missing, NaN or infinite, a trajectory in two groups, with two episode rewards, two
            successes, or two rows of the same step.
    """

    group: Any
    trajectory: Any
    step: ArrayLike
    step_reward: ArrayLike
    episode_reward: ArrayLike
    state: Any = None
    next_state: Any = None
    valid: ArrayLike | None = None
    success: ArrayLike | None = None
    counts: ArrayLike | None = None
    rows: Rows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _checked(self))

    def __len__(self) -> int:
        return self.rows.batch


def _checked(steps: Steps) -> Rows:
    problems: list[Problem] = []
    labels: dict[str, Sequence[Any]] = {}
    numbers: dict[str, FloatArray] = {}
    for name in ("group", "trajectory", "state", "next_state"):
        given = getattr(steps, name)
        if given is None and name in ("state", "next_state"):
            continue
        try:
            labels[name] = listed(given)
        except TypeError:
            problems.append(Problem(name, f"expected a sequence of labels, got {type(given).__name__}", _TABLE))
    for name in ("step", "step_reward", "episode_reward", "valid", "success", "counts"):
        given = getattr(steps, name)
        if given is None and name in ("valid", "success", "counts"):
            continue
        array = as_floats(given)
        if array.ndim == 1:
            numbers[name] = array
        else:
            problems.append(Problem(name, f"expected one number a row, got an array of shape {array.shape}", _TABLE))
    if problems:
        raise InputError(problems)

    batch = len(labels["group"])
    lengths = {name: len(values) for name, values in (labels | numbers).items()}
    wrong = {name: length for name, length in lengths.items() if length != batch}
    if wrong:
        raise InputError([Problem(n, f"has {k} rows where group has {batch}", _TABLE) for n, k in wrong.items()])

    counts = np.ones(batch, bool)
    if "counts" in numbers:
        flags = numbers.pop("counts")
        problems += _where("counts", ~np.isin(flags, (0, 1)), "neither True nor False")
        counts = flags == 1

    for name, values in labels.items():
        problems += _where(name, missing(values) & counts, "None", _UNCOUNTED)
    for name, array in numbers.items():
        if name in ("valid", "success"):
            problems += _where(name, ~np.isin(array, (0, 1)) & counts, "neither True nor False")
        elif name == "step":
            whole = np.isfinite(array) & (array == np.floor(np.where(np.isfinite(array), array, 0)))
            problems += _where(name, ~whole & counts, "no whole number")
        else:
            problems += _where(name, ~np.isfinite(array) & counts, "missing, NaN or infinite", _UNCOUNTED)
    at = np.flatnonzero(counts)
    kept = {name: _kept(values, counts) for name, values in labels.items()}
    for name, values in kept.items():
        problems += _unhashable(name, values, at)
    if problems:
        raise InputError(problems)

    rows = Rows(
        batch=batch,
        at=at,
        group=ranks(kept["group"]),
        trajectory=ranks(kept["trajectory"]),
        step=numbers["step"][at].astype(np.int64),
        step_reward=numbers["step_reward"][at],
        episode_reward=numbers["episode_reward"][at],
        state=kept.get("state"),
        next_state=kept.get("next_state"),
        invalid=1.0 - numbers["valid"][at] if "valid" in numbers else np.zeros(len(at)),
        success=numbers["success"][at] == 1 if "success" in numbers else None,
    )
    problems = _contradictions(rows)
    if problems:
        raise InputError(problems)
    return rows


def _contradictions(rows: Rows) -> list[Problem]:
    """What no trajectory can have: two groups, two episode rewards, two successes, two rows of one step."""
    problems: list[Problem] = []
    order, first = rows.order, rows.first
    same = np.flatnonzero(~first[order])  # places in the order whose predecessor is of the same trajectory
    here, before = order[same], order[same - 1]
    for name, values, what in (
        ("group", rows.group, "another group than the row before them in their trajectory"),
        ("episode_reward", rows.episode_reward, "another episode reward than the row before them in their trajectory"),
        ("success", rows.success, "another success than the row before them in their trajectory"),
    ):
        if values is not None:
            problems += _at(
                name, rows.at[here[values[here] != values[before]]], what, "one for all rows of a trajectory"
            )
    again = rows.step[here] == rows.step[before]
    problems += _at("step", rows.at[here[again]], "the step of another row of their trajectory", "number the steps")
    return problems


def as_floats(values: Any) -> FloatArray:
    """Numbers as an array; what is none becomes NaN."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        pass
    try:
        return np.array([_float(value) for value in values])
    except TypeError:  # not even a sequence
        return np.array(np.nan)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _kept(values: Sequence[Any], counts: BoolArray) -> Sequence[Any]:
    if counts.all():
        return values
    return values[counts] if isinstance(values, np.ndarray) else list(compress(values, counts.tolist()))


def _unhashable(name: str, values: Sequence[Any], at: Any) -> list[Problem]:
    """Replaces images by what they are compared by, in place; names what cannot be compared."""
    if isinstance(values, np.ndarray) or set(map(type, values)) <= {str, int, bytes}:
        return []
    bad = []
    assert isinstance(values, list)
    for place, value in enumerate(values):
        try:
            values[place] = hashable(value)
        except TypeError:
            bad.append(place)
    return (
        _at(name, at[bad], "not hashable", "give a str, a number, bytes, a tuple of them, or an image") if bad else []
    )


def _where(name: str, bad: BoolArray, what: str, fix: str = "") -> list[Problem]:
    return _at(name, np.flatnonzero(bad), what, fix)


def _at(name: str, rows: Any, what: str, fix: str) -> list[Problem]:
    if not len(rows):
        return []
    named = ", ".join(str(row) for row in np.sort(rows)[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return [Problem(f"{name}, row{'s' if len(rows) > 1 else ''} {named}{more}", what, fix)]


def taken(rows: Rows, name: str, values: Any, *, least: float = -np.inf, of: BoolArray | None = None) -> FloatArray:
    """An option that has a number for each row of the batch, at the rows that count.

    Args:
        rows: that count.
        name: of the option.
        values: one number a row of the batch.
        least: what a number must not be under.
        of: those of the rows that count whose number is read; all if None.

    Raises:
        InputError: another number of values than rows, or one that is read is no finite number or too small.
    """
    array = as_floats(values)
    if array.shape != (rows.batch,):
        raise InputError(Problem(name, f"has the shape {array.shape} where there are {rows.batch} rows", _TABLE))
    at = rows.at if of is None else rows.at[of]
    bad = ~(np.isfinite(array[at]) & (array[at] >= least))
    what = "missing, NaN or infinite" if least == -np.inf else f"missing, NaN, infinite or under {least:g}"
    problems = _at(name, at[bad], what, "every row that counts has one")
    if problems:
        raise InputError(problems)
    return array[rows.at]
