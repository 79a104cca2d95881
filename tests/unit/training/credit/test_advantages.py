"""The one way in says what is wrong with what it was given."""

from __future__ import annotations

from typing import Any

import pytest

from agent_env.errors import InputError
from agent_env.training.credit import ESTIMATORS, Steps, advantages
from agent_env.training.credit.estimator import CHECKS
from support.credit_rows import episodes

STEPS = episodes({"g": [0, 1]})
BARE = Steps(["g", "g"], ["t", "u"], [0, 0], [0, 1], [0, 1])
ARRAYS = {"tokens", "values", "bootstrap", "scores", "weights"}


def problems(estimator: str, steps: Steps = STEPS, **options: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        advantages(estimator, steps, **options)
    return [f"{problem.where}: {problem.what}" for problem in caught.value.problems]


def test_an_unknown_estimator() -> None:
    assert problems("ppo") == ["estimator: unknown 'ppo'"]


def test_all_problems_at_once() -> None:
    found = problems("graphgpo", BARE, gamma=2, votes="token", step_weight=float("nan"), hystory=1)
    assert sorted(found) == [
        "gamma: got 2",
        "hystory: is no option of graphgpo",
        "step_weight: got nan",
        "steps.next_state: is missing",
        "steps.state: is missing",
        "votes: got 'token'",
    ]


@pytest.mark.parametrize(
    ("estimator", "options", "expected"),
    [
        ("grpo", {"form": "code"}, "form: grpo has no form 'code'"),
        ("gae", {"form": "verl-agent", "values": [0, 0]}, "form: gae has no form 'verl-agent'"),
        ("gae", {}, "values: is missing"),
        ("reinforce_pp", {"form": "verl-agent"}, "tokens: is missing"),
        ("reinforce_pp", {"tokens": [1, -1]}, "tokens, row 1: missing, NaN, infinite or under 0"),
        ("grpo", {"gamma": 0.5}, "gamma: is no option of grpo"),
        ("grpo", {"normalize": True}, "normalize: got True"),
        ("gigpo", {"gamma": True}, "gamma: got True"),
        ("gigpo", {"similarity": 0}, "similarity: got 0"),
        ("gigpo", {"invalid_penalty": -0.1}, "invalid_penalty: got -0.1"),
        ("hgpo", {"history": -1}, "history: got -1"),
        ("hgpo", {"base_group": 1}, "base_group: got 1"),
    ],
)
def test_what_is_wrong_is_said(estimator: str, options: dict[str, Any], expected: str) -> None:
    assert problems(estimator, **options) == [expected]


def test_success_is_asked_for() -> None:
    steps = Steps(["g"], ["t"], [0], [0], [0], ["a"], ["b"])
    assert problems("graphgpo", steps) == ["steps.success: is missing"]
    advantages("graphgpo", steps, form="verl-agent")  # goes by the reward


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_option_is_checked(estimator: str) -> None:
    of = ESTIMATORS[estimator]
    assert of.options.keys() - ARRAYS <= CHECKS.keys()
    assert (of.verl_agent or {}).keys() <= of.options.keys()
