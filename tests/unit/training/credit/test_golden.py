"""verl-agent's form, against what verl-agent's own functions returned for the rows in verl_agent_golden.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_env.training.credit import Steps, advantages, step_groups
from agent_env.training.credit.graphgpo import distances, nodes
from agent_env.training.credit.returns import discounted, step_returns

GOLDEN = json.loads((Path(__file__).parent / "verl_agent_golden.json").read_text())
NORMALIZE = {"mean_norm": "mean", "mean_std_norm": "mean_std"}
CLOSE = {"rtol": 0, "atol": 1e-5}


def cases(prefix: str) -> list[str]:
    return [name for name in GOLDEN if name.startswith(prefix)]


def steps_of(rows: list[dict[str, Any]]) -> Steps:
    """verl-agent's rows: steps count up within a trajectory, the episode's reward is the sum of its steps'."""
    seen: dict[str, int] = {}
    total: dict[str, float] = {}
    step = []
    for row in rows:
        step.append(seen.get(row["traj"], 0))
        seen[row["traj"]] = step[-1] + 1
        total[row["traj"]] = total.get(row["traj"], 0.0) + row["r"]
    return Steps(
        group=[row["uid"] for row in rows],
        trajectory=[row["traj"] for row in rows],
        step=step,
        step_reward=[row["r"] for row in rows],
        episode_reward=[total[row["traj"]] for row in rows],
        state=[row["obs"] for row in rows],
        next_state=[row["next"] for row in rows] if "next" in rows[0] else None,
        valid=[row.get("valid", 1) for row in rows],
    )


def test_every_case_is_tested() -> None:
    tested = cases("gigpo") + cases("grpo") + cases("rloo") + cases("rfpp") + cases("hgpo") + cases("graphgpo")
    assert sorted(tested) == sorted(GOLDEN)
    assert len(tested) == 17


@pytest.mark.parametrize("name", cases("gigpo"))
def test_gigpo(name: str) -> None:
    case = GOLDEN[name]
    steps = steps_of(case["rows"])
    options = {"normalize": NORMALIZE[case["mode"]], "invalid_penalty": case["penalty"]}
    found = advantages("gigpo", steps, form="verl-agent", gamma=case["gamma"], step_weight=case["w"], **options)
    np.testing.assert_allclose(found, case["advantages"], **CLOSE)
    of_step = advantages("gigpo", steps, form="verl-agent", gamma=case["gamma"], episode_weight=0.0, **options)
    np.testing.assert_allclose(of_step, case["step_adv"], **CLOSE)
    of_episode = advantages("grpo", steps, form="verl-agent", **options)
    np.testing.assert_allclose(of_episode, case["episode_adv"], **CLOSE)
    once = advantages("grpo", steps, form="verl-agent", votes="trajectory", **options)
    np.testing.assert_allclose(once, case["episode_adv_traj_once"], **CLOSE)

    returns = discounted(steps.rows, steps.rows.step_reward, case["gamma"])
    np.testing.assert_allclose(returns, case["discounted_returns"], **CLOSE)
    paid = step_returns(steps.rows, case["gamma"], case["penalty"], "row")
    np.testing.assert_allclose(paid, case["step_rewards_after_penalty"], **CLOSE)
    assert (
        len({*zip(step_groups(steps).tolist(), case["step_group_ids"], strict=True)}) == max(case["step_group_ids"]) + 1
    )


@pytest.mark.parametrize("name", cases("grpo") + cases("rloo") + cases("rfpp"))
def test_trajectory_level(name: str) -> None:
    rows = GOLDEN["gigpo_1_mean_norm"]["rows"]
    options: dict[str, Any] = {"votes": "row" if "crossstepsTrue" in name else "trajectory"}
    if name.startswith("grpo"):
        options["normalize"] = "mean_std" if name.endswith("stdTrue") else "mean"
    if name.startswith("rfpp"):
        options["tokens"] = [row["resp"] for row in rows]
    estimator = {"grpo": "grpo", "rloo": "rloo", "rfpp": "reinforce_pp_baseline"}[name.split("_")[0]]
    found = advantages(estimator, steps_of(rows), form="verl-agent", **options)
    np.testing.assert_allclose(found, GOLDEN[name], **CLOSE)


def test_dr_grpo_is_grpo_without_the_deviation() -> None:
    steps = steps_of(GOLDEN["gigpo_1_mean_norm"]["rows"])
    found = advantages("dr_grpo", steps, form="verl-agent")
    np.testing.assert_allclose(found, GOLDEN["grpo_crossstepsTrue_stdFalse"], **CLOSE)


@pytest.mark.parametrize("name", cases("hgpo"))
def test_hgpo(name: str) -> None:
    case = GOLDEN[name]
    steps = steps_of(case["rows"])
    found = advantages(
        "hgpo",
        steps,
        form="verl-agent",
        gamma=case["gamma"],
        history=case["K"],
        alpha=case["alpha"],
        normalize=NORMALIZE[case["mode"]],
        base_group=case["base_group"],
    )
    np.testing.assert_allclose(found, case["advantages"], **CLOSE)
    np.testing.assert_allclose(step_returns(steps.rows, case["gamma"], 0.1, "row"), case["step_rewards"], **CLOSE)


@pytest.mark.parametrize("name", cases("graphgpo"))
def test_graphgpo(name: str) -> None:
    case = GOLDEN[name]
    steps = steps_of(case["rows"])
    found = advantages(
        "graphgpo",
        steps,
        form="verl-agent",
        gamma=case["gamma"],
        normalize=NORMALIZE[case["mode"]],
        normalize_distance=case["normalize_distance"],
        step_weight=case["step_w"],
        episode_weight=case["episode_w"],
    )
    np.testing.assert_allclose(found, case["advantages"], **CLOSE)
    here, there = distances(steps.rows, *nodes(steps.rows, None, "episode_reward"))
    expected = case["distances"]["A"]
    assert here.tolist() == [expected[row["obs"]] for row in case["rows"]]
    assert there.tolist() == [expected[row["next"]] for row in case["rows"]]


def test_the_signal_twelve_steps_from_the_goal() -> None:
    """A chain of 12 states, from each of which one step goes on and one stays: ideally +-0.7071 everywhere."""
    case = GOLDEN["graphgpo_5_epsilon_chain"]
    steps = steps_of(case["rows"])
    options = {"gamma": 0.1, "episode_weight": 0.0, "success_by": "episode_reward"}
    theirs = advantages("graphgpo", steps, form="verl-agent", **options)
    ours = advantages("graphgpo", steps, **options)
    assert theirs[0] == pytest.approx(4.5e-5, abs=1e-6)  # 12 steps away
    assert theirs[11] == pytest.approx(0.7071, abs=1e-4)  # 1 step away
    np.testing.assert_allclose(ours, [0.5**0.5] * 12 + [-(0.5**0.5)] * 12, rtol=1e-12)
