"""The papers' forms, by values worked out by hand."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from agent_env.errors import InputError
from agent_env.training.credit import ESTIMATORS, Steps, advantages
from support.credit_rows import episodes, fields_of

ROOT2 = 2**0.5

EPISODE_CASES: list[tuple[str, dict[str, list[float]], dict[str, Any], list[float]]] = [
    ("grpo", {"g": [1, 2, 3], "h": [5, 5], "i": [7]}, {}, [-1, 0, 1, 0, 0, 0]),
    ("grpo", {"g": [1, 2, 3]}, {"deviation": "population"}, [-(1.5**0.5), 0, 1.5**0.5]),
    ("grpo", {"g": [1, 2, 3]}, {"epsilon": 1.0}, [-0.5, 0, 0.5]),
    ("grpo", {"g": [1, 2, 6], "h": [4]}, {"normalize": "mean"}, [-2, -1, 3, 0]),
    ("grpo", {"g": [1, 2, 6], "h": [4]}, {"normalize": "mean", "alone": "score"}, [-2, -1, 3, 4]),
    ("dr_grpo", {"g": [1, 2, 6], "h": [4]}, {}, [-2, -1, 3, 0]),
    ("rloo", {"g": [10, 4, 1], "h": [3]}, {}, [7.5, -1.5, -6, 0]),
    ("rloo", {"g": [10, 4, 1], "h": [3]}, {"alone": "score"}, [7.5, -1.5, -6, 3]),
    ("reinforce_pp", {"g": [0, 0], "h": [0, 4]}, {}, [-(3**-0.5)] * 3 + [3**0.5]),
    ("reinforce_pp", {"g": [0, 0], "h": [0, 4]}, {"deviation": "sample"}, [-0.5] * 3 + [1.5]),
    ("reinforce_pp", {"g": [2, 2], "h": [2]}, {}, [0, 0, 0]),
    ("reinforce_pp_baseline", {"g": [0, 4], "h": [1, 1], "i": [9]}, {}, [-(2.5**0.5), 2.5**0.5, 0, 0, 0]),
    ("grpo_passk", {"g": [5, 3, 1], "h": [2, 2, 0], "i": [9]}, {}, [2, 0, 0, 0, 0, 0, 0]),
    ("grpo_passk", {"g": [5, 3, 1], "h": [2, 2]}, {"normalize": "mean_std"}, [1, 0, 0, 0, 0]),
]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("estimator", "rewards", "options", "expected"), EPISODE_CASES)
def test_trajectory_level(
    estimator: str, rewards: dict[str, list[float]], options: dict[str, Any], expected: list[float], rows: int
) -> None:
    """The same for trajectories of one row and of several: each votes once."""
    found = advantages(estimator, episodes(rewards, rows), **options)
    np.testing.assert_allclose(found, np.repeat(expected, rows), rtol=1e-12, atol=1e-12)


def test_a_row_with_more_tokens_votes_more() -> None:
    # Four tokens, 0 0 0 4: mean 1, sample variance 12 / 3.
    steps = episodes({"g": [0, 4]})
    found = advantages("reinforce_pp", steps, tokens=[3, 1], deviation="sample")
    np.testing.assert_allclose(found, [-0.5, 1.5])


def test_rewards_that_differ_by_rounding_are_equal() -> None:
    steps = episodes({"g": [0.3, 0.1 + 0.2, 0.3]})
    for estimator in ("grpo", "reinforce_pp"):
        assert advantages(estimator, steps).tolist() == [0, 0, 0]


def test_an_invalid_action_costs_its_trajectory_or_its_row() -> None:
    made = {("g", "t"): [{"valid": False}, {}, {"valid": False}], ("g", "u"): [{"reward": 1.0}]}
    steps = Steps(**fields_of(made))
    np.testing.assert_allclose(advantages("dr_grpo", steps, invalid_penalty=0.5), [-1, -1, -1, 1])
    # On the row alone, by votes of trajectories: t's vote is its first row's.
    found = advantages("dr_grpo", steps, invalid_penalty=0.5, penalty="row")
    np.testing.assert_allclose(found, [-0.75, -0.25, -0.75, 0.75])
    np.testing.assert_allclose(advantages("dr_grpo", steps, invalid_penalty=0.0), [-0.5, -0.5, -0.5, 0.5])
    alone = Steps(**fields_of({("g", "t"): made["g", "t"]}))
    assert advantages("dr_grpo", alone, penalty="row").tolist() == [0, 0, 0]


GIGPO = {
    ("A", "A0"): [{"state": "s0"}, {"state": "s1"}, {"state": "s2", "reward": 10}],
    ("A", "A1"): [{"state": "s0"}, {"state": "s3", "valid": False}, {"state": "s1"}],
    ("A", "A2"): [{"state": "s0"}, {"state": "s2", "reward": 10}],
    ("B", "B0"): [{"state": "s0"}],
    ("B", "B1"): [{"state": "s0"}, {"state": "s9", "reward": 10}],
}


def test_gigpo() -> None:
    """A's rewards are 10, -0.1 (its invalid action's) and 10, its returns from s0 9.025, -0.095 and 9.5."""
    of_step = np.array([8.645 / 3, 4.75, 0, -18.715 / 3, 0, -4.75, 10.07 / 3, 0, -4.75, 4.75, 0])
    of_episode = np.repeat([10.1 / 3, -20.2 / 3, 10.1 / 3, -5, 5], [3, 3, 2, 1, 2])
    steps = Steps(**fields_of(GIGPO))
    np.testing.assert_allclose(advantages("gigpo", steps, normalize="mean"), of_episode + of_step)
    found = advantages("gigpo", steps, normalize="mean", episode_weight=0.5, step_weight=2.0)
    np.testing.assert_allclose(found, 0.5 * of_episode + 2 * of_step)
    # Of two values each is half a root of 2 deviations off; of three, two of them equal, a third of a root of 3.
    b = advantages("gigpo", steps)[-3:]
    np.testing.assert_allclose(b, [-ROOT2, ROOT2, ROOT2 / 2])
    np.testing.assert_allclose(advantages("gigpo", steps, step_weight=0.0)[:4], [3**-0.5] * 3 + [-2 / 3**0.5])


def test_the_same_state_in_two_groups_is_two_states() -> None:
    made = {("A", "A0"): [{"state": "s", "reward": 1}], ("B", "B0"): [{"state": "s", "reward": 3}]}
    assert advantages("gigpo", Steps(**fields_of(made))).tolist() == [0, 0]


HGPO = {
    ("A", "A0"): [{"state": "a"}, {"state": "b"}, {"state": "c", "reward": 10}],
    ("A", "A1"): [{"state": "a"}, {"state": "b"}, {"state": "c"}, {"state": "d"}],
    ("A", "A2"): [{"state": "a"}, {"state": "c"}, {"state": "b", "valid": False}, {"state": "c", "reward": 10}],
}
"""Returns at 0.95: b is left with 9.5, 0 and 9.5; c with 10, 0, 9.025 and 10; d with 0."""


def test_hgpo() -> None:
    steps = Steps(**fields_of(HGPO))
    found = advantages("hgpo", steps, invalid_penalty=0.0)
    # A0's b: half a root of 2 above those in b; A1's is the only other that came from a, one deviation below.
    assert found[1] == pytest.approx((1 * ROOT2 / 2 + 2 * 1) / 3)
    # A0's c, last of a, b, c: A1's is the only other that has the last two or three states in common.
    of_c = np.array([10, 0, 9.025, 10])
    z = (of_c - of_c.mean()) / of_c.std()
    # (b, c) also ends A2: 10, 0, 10. (a, b, c) is A0's and A1's alone.
    assert found[2] == pytest.approx((1 * z[0] + 2 * ROOT2 / 2 + 3 * 1) / 6)
    assert found[6] == 0  # d is seen once
    uniform = advantages("hgpo", steps, invalid_penalty=0.0, alpha=0.0)
    assert uniform[1] == pytest.approx((ROOT2 / 2 + 1) / 2)
    current = advantages("hgpo", steps, invalid_penalty=0.0, history=0)
    assert current[1] == pytest.approx(ROOT2 / 2)


def test_hgpos_weights_are_the_papers() -> None:
    """0.7183 in context 0 and 1 in context 1: weights of 1 and 2 make 0.906; verl-agent's, 2 and 3, make 0.887."""
    steps = Steps(**fields_of(HGPO))
    assert advantages("hgpo", steps, penalty="row")[1] == pytest.approx(0.90610, abs=1e-5)
    assert advantages("hgpo", steps, penalty="row", first_weight=2.0)[1] == pytest.approx(0.88732, abs=1e-5)


def test_a_base_group_is_the_context_below_the_first() -> None:
    steps = Steps(**fields_of(HGPO))
    found = advantages("hgpo", steps, invalid_penalty=0.0, base_group=True)
    # A's rewards are 10, 0 and 10: A0 is a third of a root of 3 sample deviations above the mean.
    assert found[1] == pytest.approx((1 * 3**-0.5 + 2 * ROOT2 / 2 + 3 * 1) / 6)


def test_an_average_step_counts_in_hgpo_and_not_in_verl_agents() -> None:
    """Returns of 0, 1 and 2 from s after p: the middle one is average among the three, not among the two after p."""
    made = {
        ("g", "t"): [{"state": "p"}, {"state": "s", "reward": 1}],
        ("g", "u"): [{"state": "p"}, {"state": "s", "reward": 2}],
        ("g", "v"): [{"state": "q"}, {"state": "s", "reward": 0}],
    }
    steps = Steps(**fields_of(made))
    assert advantages("hgpo", steps)[1] == pytest.approx((1 * 0 + 2 * -1) / 3)
    assert advantages("hgpo", steps, drop_zeros=True)[1] == pytest.approx(-1)


GRAPH = {
    ("A", "A0"): [
        {"state": "s0", "next_state": "s1"},
        {"state": "s1", "next_state": "s2"},
        {"state": "s2", "next_state": "end", "reward": 10, "success": True},
    ],
    ("A", "A1"): [
        {"state": "s0", "next_state": "s3"},
        {"state": "s3", "next_state": "s0"},
        {"state": "s0", "next_state": "s1"},
        {"state": "s1", "next_state": "s4"},
    ],
    ("A", "A2"): [
        {"state": "s0", "next_state": "s3"},
        {"state": "s3", "next_state": "s2"},
        {"state": "s2", "next_state": "out", "reward": 10, "success": True},
    ],
}
"""s2 is 1 step from the goal, s1 and s3 are 2, s0 is 3; s4, with no way to it, 4."""


def test_graphgpo() -> None:
    steps = Steps(**fields_of(GRAPH))
    options = {"gamma": 0.8, "normalize": "mean", "episode_weight": 0.0}
    # 10 times 0.8 to the power of d + 1: from s1, 6.4 or 3.2768; from s3, 4.096 or 6.4; elsewhere there is no choice.
    expected = [0, 1.5616, 0, 0, -1.152, 0, -1.5616, 0, 1.152, 0]
    np.testing.assert_allclose(advantages("graphgpo", steps, **options), expected, atol=1e-12)
    # The distance from s1 and s3 taken off: 10 or 5.12; 6.4 or 10.
    expected = [0, 2.44, 0, 0, -1.8, 0, -2.44, 0, 1.8, 0]
    found = advantages("graphgpo", steps, normalize_distance=True, **options)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    found = advantages("graphgpo", steps, gamma=0.8, normalize="mean", step_weight=0.0)
    np.testing.assert_allclose(found, np.repeat([10 / 3, -20 / 3, 10 / 3], [3, 4, 3]))
    z = ROOT2 / 2
    found = advantages("graphgpo", steps, gamma=0.8, episode_weight=0.0)
    np.testing.assert_allclose(found, [0, z, 0, 0, -z, 0, -z, 0, z, 0], atol=1e-12)


def test_graphgpos_goal_is_success_and_no_reward() -> None:
    fields = fields_of(GRAPH)
    paid_for_nothing = fields | {"success": [False] * 10}
    options = {"episode_weight": 0.0}
    assert not advantages("graphgpo", Steps(**paid_for_nothing), **options).any()
    # As on a number line, where every step costs and success is no more than the end of it.
    unpaid = fields | {"step_reward": [-1] * 10, "episode_reward": np.repeat([-3, -4, -3], [3, 4, 3])}
    expected = advantages("graphgpo", Steps(**fields), **options)
    assert advantages("graphgpo", Steps(**unpaid), **options).tolist() == expected.tolist()


def chain(length: int, omitted: int | None = None) -> Steps:
    """States 0 to length - 1: one trajectory goes from each to the next, another stays in each; the end is success.

    At `omitted`, going on is an invalid action.
    """
    goes = [{"state": at, "next_state": at + 1, "valid": at != omitted} for at in range(length)]
    goes[-1] |= {"reward": 1, "success": True}
    stays = {("g", f"stays-{at}"): [{"state": at, "next_state": at}] for at in range(length)}
    return Steps(**fields_of({("g", "goes"): goes, **stays}))


@pytest.mark.parametrize("omega", [0.1, 0.5, 0.99, 1.0])
def test_the_signal_reaches_any_distance(omega: float) -> None:
    """400 steps from the goal, 0.1 to the power of the distance is no double any more."""
    length = 400
    found = advantages("graphgpo", chain(length), gamma=omega, episode_weight=0.0)
    z = 0.0 if omega == 1.0 else ROOT2 / 2
    np.testing.assert_allclose(found, [z] * length + [-z] * length, rtol=1e-9)


@pytest.mark.parametrize("at", [0, 11])
def test_an_invalid_action_weighs_the_same_at_every_distance(at: int) -> None:
    """Going on pays 10 - 0.1, staying 1: still the better step. In verl-agent's form it is the worse one at 12."""
    found = advantages("graphgpo", chain(12, omitted=at), episode_weight=0.0)
    assert found[at] == pytest.approx(ROOT2 / 2)
    theirs = advantages("graphgpo", chain(12, omitted=0), form="verl-agent", episode_weight=0.0)
    assert theirs[0] < -0.7


GAE = {("g", "t"): [{"reward": 1}, {"reward": 2}], ("g", "u"): [{"reward": 3, "valid": False}]}


def test_gae() -> None:
    steps = Steps(**fields_of(GAE))
    options = {"values": [0.5, 1, 1], "gamma": 0.5, "lam": 0.5, "invalid_penalty": 0.25}
    # delta: 1 + 0.5 * 1 - 0.5 and 2 - 1; then 3 - 0.25 - 1.
    np.testing.assert_allclose(advantages("gae", steps, **options), [1.25, 1, 1.75])
    # The second delta becomes 2 + 0.5 * 4 - 1; what stands at a row that is not the last of its trajectory is not read.
    found = advantages("gae", steps, bootstrap=[float("nan"), 4, 0], **options)
    np.testing.assert_allclose(found, [1.75, 3, 1.75])
    # With gamma = lambda = 1: the return minus the value.
    np.testing.assert_allclose(advantages("gae", steps, values=[0.5, 1, 1], invalid_penalty=0.0), [2.5, 1, 2])


@pytest.mark.parametrize("values", [[1, 2], [1, 2, float("nan")], [[1], [2], [3]]])
def test_gaes_values_are_one_a_row(values: Any) -> None:
    with pytest.raises(InputError, match="values"):
        advantages("gae", Steps(**fields_of(GAE)), values=values)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_time_that_grows_with_the_square_of_the_rows(estimator: str) -> None:
    """20,000 rows in under 0.25 s of processor time, 8 times what it takes; a mask of the batch a row takes 4 s."""
    at = np.arange(20_000)
    state = [f"state {number}" for number in at % 37 + at // 1000 * 37]
    steps = Steps(
        at // 200, at // 25, at % 25, np.zeros(len(at)), np.zeros(len(at)), state, state[1:] + state[:1], success=at < 0
    )
    options = {"gae": {"values": at}, "gdpo": {"scores": {"score": at // 25}}}.get(estimator, {})

    def seconds() -> float:
        started = time.process_time()
        advantages(estimator, steps, **options)
        return time.process_time() - started

    assert min(itertools.starmap(seconds, [()] * 3)) < 0.25
