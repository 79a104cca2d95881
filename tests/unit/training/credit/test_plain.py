"""The step-level estimators against their equations, written as plain loops over rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.training.credit import Steps, advantages
from agent_env.training.credit.graphgpo import distances, nodes
from support.credit_rows import Fields, batches

GAMMA = 0.9


def trajectory_of(fields: Fields, row: int) -> list[int]:
    """The rows of a row's trajectory, in order."""
    rows = [at for at, name in enumerate(fields["trajectory"]) if name == fields["trajectory"][row]]
    return sorted(rows, key=lambda at: fields["step"][at])


def plain_returns(fields: Fields) -> list[float]:
    returns = []
    for row in range(len(fields["group"])):
        rows = trajectory_of(fields, row)
        later = rows[rows.index(row) :]
        paid = [fields["step_reward"][at] - 0.1 * (not fields["valid"][at]) for at in later]
        returns.append(sum(GAMMA**k * reward for k, reward in enumerate(paid)))
    return returns


def plain_relative(values: list[float], keys: list[Hashable], deviation: Callable[..., float]) -> list[float | None]:
    """Each value in deviations from the mean of those with its key; None if it is alone or has no key."""
    found: list[float | None] = []
    for value, key in zip(values, keys, strict=True):
        others = [other for other, its in zip(values, keys, strict=True) if its == key]
        if key is None or len(others) < 2:
            found.append(None)
        elif max(others) - min(others) < 1e-9:
            found.append(0.0)
        else:
            found.append((value - statistics.fmean(others)) / deviation(others))
    return found


@given(fields=batches())
def test_gigpos_step_advantage(fields: Fields) -> None:
    keys: list[Hashable] = list(zip(fields["group"], fields["state"], strict=True))
    expected = [a or 0.0 for a in plain_relative(plain_returns(fields), keys, statistics.stdev)]
    found = advantages("gigpo", Steps(**fields), gamma=GAMMA, episode_weight=0.0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@given(fields=batches(), history=st.integers(0, 4), alpha=st.floats(0, 2))
def test_hgpo(fields: Fields, history: int, alpha: float) -> None:
    size = len(fields["group"])
    total, weight = np.zeros(size), np.zeros(size)
    returns = plain_returns(fields)
    for k in range(history + 1):
        keys: list[Hashable] = []
        for row in range(size):
            rows = trajectory_of(fields, row)
            at = rows.index(row)
            context = tuple(fields["state"][of] for of in rows[max(at - k, 0) : at + 1])
            keys.append((fields["group"][row], context) if at >= k else None)
        for row, advantage in enumerate(plain_relative(returns, keys, statistics.pstdev)):
            if advantage is not None:
                total[row] += (k + 1) ** alpha * advantage
                weight[row] += (k + 1) ** alpha
    expected = total / np.where(weight == 0, 1, weight)
    found = advantages("hgpo", Steps(**fields), gamma=GAMMA, history=history, alpha=alpha)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@given(fields=batches(steps=12))
def test_distances_to_the_goal(fields: Fields) -> None:
    edges = []
    for row, group in enumerate(fields["group"]):
        last = trajectory_of(fields, row)[-1] == row
        there = "goal" if last and fields["success"][row] else fields["next_state"][row]
        edges.append((group, fields["state"][row], there))
    distance: dict[tuple[str, str], float] = {}
    for group, here, there in edges:
        distance |= {(group, here): np.inf, (group, there): np.inf}
    distance |= {key: 0.0 for key in distance if key[1] == "goal"}
    for _ in distance:
        for group, here, there in edges:
            distance[group, here] = min(distance[group, here], distance[group, there] + 1)
    for group in {*fields["group"]}:
        known = [steps for (of, _), steps in distance.items() if of == group and steps < np.inf]
        distance |= {
            key: max(known, default=0) + 1 for key, steps in distance.items() if key[0] == group and steps == np.inf
        }
    rows = Steps(**fields).rows
    here_found, there_found = distances(rows, *nodes(rows, None))
    assert here_found.tolist() == [distance[group, here] for group, here, _ in edges]
    assert there_found.tolist() == [distance[group, there] for group, _, there in edges]


@pytest.mark.parametrize("rows", [20_000])
def test_a_long_chain_takes_no_time_that_grows_with_its_square(rows: int) -> None:
    chain = Steps(
        ["g"] * rows, ["t"] * rows, range(rows), [0] * rows, [0] * rows, range(rows), range(1, rows + 1),
        success=[True] * rows,
    )  # fmt: skip
    here, there = distances(chain.rows, *nodes(chain.rows, None))
    assert here.tolist() == list(range(rows, 0, -1))
    assert there.tolist() == list(range(rows - 1, -1, -1))
