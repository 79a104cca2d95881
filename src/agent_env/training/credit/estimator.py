"""What an estimator is, and which values its options may have."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final

from agent_env.errors import Problem
from agent_env.training.credit.rows import FloatArray

REQUIRED: Final = object()
"""In `Estimator.verl_agent`: an option that the caller has to give for verl-agent's form."""


@dataclass(frozen=True)
class Estimator:
    """A way to give credit.

    Args:
        compute: from `Rows` and keyword options, the paper's form by default, to an advantage for each row.
        needs: the optional fields of `Steps` that it reads.
        compares: whether it compares the rollouts of a task: where a task has one, every advantage is 0.
        verl_agent: the options whose values make it verl-agent's form; None if verl-agent has no such estimator.
    """

    compute: Callable[..., FloatArray]
    needs: tuple[str, ...] = ()
    compares: bool = False
    verl_agent: Mapping[str, Any] | None = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The names of its options and the paper's values; `inspect.Parameter.empty` for one that must be given."""
        parameters = list(inspect.signature(self.compute).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}


Check = tuple[Callable[[Any], bool], str]


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _among(*values: str) -> Check:
    return (lambda value: isinstance(value, str) and value in values, " or ".join(map(repr, values)))


_SHARE: Check = (lambda value: _number(value) and 0 <= value <= 1, "a number from 0 to 1")
_WEIGHT: Check = (_number, "a number")
_AMOUNT: Check = (lambda value: _number(value) and value >= 0, "a number of 0 or more")
_SWITCH: Check = (lambda value: isinstance(value, bool), "True or False")
_COUNT: Check = (
    lambda value: isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0,
    "0, 1, 2, …",
)

CHECKS: Mapping[str, Check] = {
    "gamma": _SHARE,
    "lam": _SHARE,
    "normalize": _among("mean", "mean_std"),
    "step_weight": _WEIGHT,
    "episode_weight": _WEIGHT,
    "invalid_penalty": _AMOUNT,
    "similarity": (lambda value: value is None or (_number(value) and 0 < value <= 1), "None or a number in (0, 1]"),
    "history": _COUNT,
    "alpha": _WEIGHT,
    "base_group": _SWITCH,
    "first_weight": (lambda value: value is None or (_number(value) and value > 0), "None or a number above 0"),
    "drop_zeros": _SWITCH,
    "success_reward": (lambda value: _number(value) and value > 0, "a number above 0"),
    "normalize_distance": _SWITCH,
    "edge_cost": _AMOUNT,
    "success_by": _among("success", "episode_reward"),
    "votes": _among("trajectory", "row"),
    "penalty": _among("reward", "row"),
    "deviation": _among("sample", "population"),
    "epsilon": _AMOUNT,
    "alone": _among("zero", "score"),
}
"""What each option may be, whichever estimator takes it. Options that are arrays are checked with the rows."""


def problems_of(options: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the values of options."""
    return [
        Problem(name, f"got {value!r}", f"expected {CHECKS[name][1]}")
        for name, value in options.items()
        if name in CHECKS and not CHECKS[name][0](value)
    ]
