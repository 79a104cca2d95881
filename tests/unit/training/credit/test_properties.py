"""What holds for every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.training.credit import ESTIMATORS, Steps, advantages, step_groups
from support.credit_rows import Fields, batches, fields_of, taken

EPISODE = ("grpo", "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "grpo_passk")
FORMS = [
    (name, form)
    for name, of in ESTIMATORS.items()
    for form in ("paper", "verl-agent")
    if of.verl_agent is not None or form == "paper"
]


def options_of(estimator: str, fields: Fields, form: str = "paper") -> dict[str, Any]:
    """The arrays that an estimator must be given, a number a row that goes with the row."""
    if estimator == "gae":
        return {"values": [0.3 * step * step for step in fields["step"]]}
    if estimator == "gdpo":
        return {
            "scores": {"whole": fields["episode_reward"], "reached": fields["success"]},
            "weights": {"reached": 0.5},
        }
    if estimator.startswith("reinforce_pp") and form == "verl-agent":
        return {"tokens": [1 + step for step in fields["step"]]}
    return {}


def same(found: np.ndarray, expected: np.ndarray, *what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7, err_msg=" ".join(what))


def computed(estimator: str, fields: Fields, form: str = "paper", **options: Any) -> np.ndarray:
    return advantages(estimator, Steps(**fields), form=form, **options_of(estimator, fields, form), **options)


@given(fields=batches())
@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        ("grpo", {"normalize": "mean"}),
        ("dr_grpo", {}),
        ("rloo", {}),
        ("gigpo", {"normalize": "mean", "step_weight": 0.0}),
        ("graphgpo", {"normalize": "mean", "step_weight": 0.0}),
    ],
)
def test_a_groups_advantages_sum_to_zero_over_its_trajectories(
    estimator: str, options: dict[str, Any], fields: Fields
) -> None:
    found = computed(estimator, fields, **options)
    totals: dict[str, float] = {}
    for group, trajectory, advantage in {*zip(fields["group"], fields["trajectory"], found.tolist(), strict=True)}:
        assert len({*found[np.array(fields["trajectory"]) == trajectory].tolist()}) == 1
        totals[group] = totals.get(group, 0.0) + advantage
    assert max(map(abs, totals.values())) < 1e-9


@given(fields=batches())
def test_step_advantages_sum_to_zero_over_each_step_group(fields: Fields) -> None:
    found = computed("gigpo", fields, normalize="mean", episode_weight=0.0)
    sums = np.bincount(step_groups(Steps(**fields)), weights=found)
    assert np.abs(sums).max() < 1e-9


@given(fields=batches(), random=st.randoms(use_true_random=False))
def test_permuting_rows_permutes_advantages(fields: Fields, random: Any) -> None:
    order = list(range(len(fields["group"])))
    random.shuffle(order)
    for estimator, form in FORMS:
        moved = computed(estimator, taken(fields, order), form)
        same(moved, computed(estimator, fields, form)[order], estimator, form)


@given(fields=batches(), random=st.randoms(use_true_random=False))
def test_permuting_rows_permutes_advantages_of_similar_states(fields: Fields, random: Any) -> None:
    texts = {"a": "the red room 1", "b": "the red room 2", "c": "the rad room 2", "d": "a cellar"}
    for name in ("state", "next_state"):
        fields[name] = [texts[state] for state in fields[name]]
    order = list(range(len(fields["group"])))
    random.shuffle(order)
    for estimator in ("gigpo", "hgpo", "graphgpo"):
        moved = computed(estimator, taken(fields, order), similarity=0.92)
        same(moved, computed(estimator, fields, similarity=0.92)[order], estimator)


@given(fields=batches(), more=st.integers(1, 3))
def test_how_a_trajectory_is_split_into_rows_changes_no_other(fields: Fields, more: int) -> None:
    """The first trajectory's last row becomes several, with the same rewards and invalid actions in all."""
    which = fields["trajectory"][0]
    of_it = [at for at, trajectory in enumerate(fields["trajectory"]) if trajectory == which]
    last = max(of_it, key=lambda at: fields["step"][at])
    split = taken(fields, [*range(len(fields["group"])), *[last] * more])
    for at in range(1, more + 1):
        split["step"][-at] += at
        split["step_reward"][-at] = 0.0
        split["valid"][-at] = True
    for estimator in EPISODE:
        found, before = computed(estimator, split), computed(estimator, fields)
        same(found[: len(before)], before, estimator)
        same(found[len(before) :], before[last], estimator)


@given(fields=batches(), random=st.randoms(use_true_random=False))
def test_rows_that_do_not_count_change_nothing(fields: Fields, random: Any) -> None:
    size = len(fields["group"])
    nothing: dict[str, Any] = dict.fromkeys(fields)  # None in every field
    garbage = nothing | {"step_reward": float("nan"), "episode_reward": float("inf"), "state": [], "step": "?"}
    copy = {name: values[0] for name, values in fields.items()}
    padded = {name: [*values, nothing[name], garbage[name], copy[name]] for name, values in fields.items()}
    padded["counts"] = [True] * size + [False] * 3
    order = list(range(size + 3))
    random.shuffle(order)
    steps = Steps(**taken(padded, order))

    def with_garbage(option: Any) -> Any:
        if isinstance(option, dict):
            return {name: with_garbage(values) for name, values in option.items()}
        return taken({"": [*option, None, float("nan"), 1e9]}, order)[""] if isinstance(option, list) else option

    for estimator, form in FORMS:
        arrays = with_garbage(options_of(estimator, fields, form))
        found = np.empty(size + 3)
        found[order] = advantages(estimator, steps, form=form, **arrays)
        assert found[size:].tolist() == [0.0] * 3
        same(found[:size], computed(estimator, fields, form), estimator, form)


@given(fields=batches(), factor=st.floats(1e-3, 1e3))
def test_scaling_rewards_leaves_normalised_advantages_alone(fields: Fields, factor: float) -> None:
    scaled = dict(fields)
    for name in ("step_reward", "episode_reward"):
        scaled[name] = [factor * reward for reward in fields[name]]
    for estimator in ("grpo", "reinforce_pp", "reinforce_pp_baseline", "gigpo", "hgpo"):
        found = computed(estimator, scaled, invalid_penalty=0.1 * factor)
        same(found, computed(estimator, fields), estimator)
    options = {"normalize": "mean_std", "invalid_penalty": 0.0}  # graphgpo's success has a reward of its own
    for estimator in ("grpo_passk", "graphgpo"):
        same(computed(estimator, scaled, **options), computed(estimator, fields, **options), estimator)


@given(fields=batches(groups=4, trajectories=1))
def test_a_trajectory_alone_in_its_group_gets_nothing(fields: Fields) -> None:
    for estimator in ("grpo", "dr_grpo", "rloo", "reinforce_pp_baseline", "grpo_passk"):
        assert computed(estimator, fields).tolist() == [0.0] * len(fields["group"])


@given(fields=batches())
def test_nothing_is_ever_not_a_number(fields: Fields) -> None:
    for estimator, form in FORMS:
        found = computed(estimator, fields, form)
        assert found.shape == (len(fields["group"]),)
        assert found.dtype == np.float64
        assert np.isfinite(found).all()


@pytest.mark.parametrize(("estimator", "form"), FORMS)
def test_no_rows_have_no_advantages(estimator: str, form: str) -> None:
    assert computed(estimator, fields_of({}), form).shape == (0,)


@pytest.mark.parametrize(("estimator", "form"), FORMS)
def test_only_padding_has_no_advantage(estimator: str, form: str) -> None:
    fields = fields_of({("g", "t"): [{}, {}]}) | {"counts": [False, False]}
    assert computed(estimator, fields, form).tolist() == [0.0, 0.0]
