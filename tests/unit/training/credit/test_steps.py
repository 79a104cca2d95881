"""Steps are checked before any maths: all problems at once, each with its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent_env.errors import InputError
from agent_env.training.credit import Steps, advantages, step_groups
from support.credit_rows import fields_of

NAN = float("nan")


def problems(**fields: Any) -> list[str]:
    made: dict[str, Any] = fields_of({("g", "t"): [{}, {"reward": 1}], ("g", "u"): [{}]})
    with pytest.raises(InputError) as caught:
        Steps(**(made | fields))
    return [f"{problem.where}: {problem.what}" for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"step_reward": [0, NAN, 0]}, "step_reward, row 1: missing, NaN or infinite"),
        ({"step_reward": [None, 0, "much"]}, "step_reward, rows 0, 2: missing, NaN or infinite"),
        ({"episode_reward": [1, 1, np.inf]}, "episode_reward, row 2: missing, NaN or infinite"),
        ({"episode_reward": [1, 2, 0]}, "episode_reward, row 1: another episode reward than the row before them"),
        ({"group": ["g", "h", "g"]}, "group, row 1: another group than the row before them in their trajectory"),
        ({"success": [False, True, True]}, "success, row 1: another success than the row before them"),
        ({"step": [4, 4, 4]}, "step, row 1: the step of another row of their trajectory"),
        ({"step": [0, 0.5, 0]}, "step, row 1: no whole number"),
        ({"step": [0, None, 0]}, "step, row 1: no whole number"),
        ({"valid": [1, 2, 0]}, "valid, row 1: neither True nor False"),
        ({"success": [None, None, True]}, "success, rows 0, 1: neither True nor False"),
        ({"counts": [1, 1, NAN]}, "counts, row 2: neither True nor False"),
        ({"state": ["a", None, "b"]}, "state, row 1: None"),
        ({"trajectory": ["t", "t", None]}, "trajectory, row 2: None"),
        ({"group": [["g"], ["g"], ["g"]]}, "group, rows 0, 1, 2: not hashable"),
        ({"next_state": ["a", {"room": 1}, "b"]}, "next_state, row 1: not hashable"),
        ({"state": ["a", "b"]}, "state: has 2 rows where group has 3"),
        ({"state": 3}, "state: expected a sequence of labels, got int"),
        ({"step_reward": 3}, "step_reward: expected one number a row, got an array of shape ()"),
        ({"step_reward": [[0], [1], [0]]}, "step_reward: expected one number a row, got an array of shape (3, 1)"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], expected: str) -> None:
    (found,) = problems(**fields)
    assert found.startswith(expected)


def test_every_problem_is_said_at_once() -> None:
    found = problems(step_reward=[NAN, 0, 0], state=["a", "b", None], valid=[1, 5, 1], step=[0.5, 0, 0])
    assert sorted(problem.split(",")[0] for problem in found) == ["state", "step", "step_reward", "valid"]


def test_many_rows_are_counted() -> None:
    with pytest.raises(InputError, match=r"step_reward, rows 0, 1, 2, 3, 4, 5, 6, 7 and 92 more"):
        Steps(["g"] * 100, range(100), [0] * 100, [NAN] * 100, [0] * 100)


def test_rows_that_do_not_count_are_not_checked() -> None:
    fields = fields_of({("g", "t"): [{"reward": 1}], ("g", "u"): [{"reward": 3}], ("g", "v"): [{}, {}]})
    fields |= {"counts": [True, True, False, False], "step_reward": [1, 3, NAN, None]}
    fields |= {"episode_reward": [1, 3, 1, 2], "state": ["a", "a", None, {}], "trajectory": ["t", "u", "u", None]}
    steps = Steps(**fields)
    assert len(steps) == 4
    assert advantages("dr_grpo", steps).tolist() == [-1, 1, 0, 0]
    assert step_groups(steps).tolist() == [0, 0, -1, -1]


def test_optional_fields_may_be_left_out() -> None:
    steps = Steps(["g", "g"], ["t", "u"], [0, 0], [0, 1], [0, 1])
    assert advantages("dr_grpo", steps).tolist() == [-0.5, 0.5]


def test_labels_may_be_arrays_numbers_or_of_several_types() -> None:
    for group in (np.array([7, 7]), np.array(["a", "a"]), np.array(["a", "a"], object), [("a", 1), ("a", 1)]):
        for trajectory in (np.array([5, 3]), ["t", 3], [None.__class__, 2]):
            assert advantages("dr_grpo", Steps(group, trajectory, [0, 0], [0, 1], [0, 1])).tolist() == [-0.5, 0.5]
