"""The one way in: an estimator's name and the steps, to an advantage for each row."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Literal

from agent_env.errors import InputError, Problem
from agent_env.training.credit.dr_grpo import DR_GRPO
from agent_env.training.credit.estimator import REQUIRED, Estimator, problems_of
from agent_env.training.credit.gae import GAE
from agent_env.training.credit.gdpo import GDPO
from agent_env.training.credit.gigpo import GIGPO
from agent_env.training.credit.graphgpo import GRAPHGPO
from agent_env.training.credit.grpo import GRPO
from agent_env.training.credit.grpo_passk import GRPO_PASSK
from agent_env.training.credit.hgpo import HGPO
from agent_env.training.credit.reinforce_pp import REINFORCE_PP
from agent_env.training.credit.reinforce_pp_baseline import REINFORCE_PP_BASELINE
from agent_env.training.credit.rloo import RLOO
from agent_env.training.credit.rows import FloatArray
from agent_env.training.credit.steps import Steps

Form = Literal["paper", "verl-agent"]

ESTIMATORS: Mapping[str, Estimator] = {
    "grpo": GRPO,
    "dr_grpo": DR_GRPO,
    "rloo": RLOO,
    "reinforce_pp": REINFORCE_PP,
    "reinforce_pp_baseline": REINFORCE_PP_BASELINE,
    "grpo_passk": GRPO_PASSK,
    "gdpo": GDPO,
    "gigpo": GIGPO,
    "hgpo": HGPO,
    "graphgpo": GRAPHGPO,
    "gae": GAE,
}


def advantages(estimator: str, steps: Steps, *, form: Form = "paper", **options: Any) -> FloatArray:
    """The advantage of each row.

    Args:
        estimator: a name in `ESTIMATORS`; each is documented in the module of that name.
        steps: the rows, in any order.
        form: whose conventions the options that are not given follow: the paper's or verl-agent's.
        options: of the estimator; docs/credit.md lists them.

    Returns:
        float64, one for each row of `steps`, 0 for those that don't count. It is meant for all tokens of the row.

    Raises:
        InputError: with all problems: an unknown estimator, form or option, a value that an option cannot have, a field
            of `steps` that the estimator needs and that was not given.
        MissingExtra: similarity was asked for, and rapidfuzz is not installed.
    """
    if estimator not in ESTIMATORS:
        raise InputError(Problem("estimator", f"unknown {estimator!r}", f"one of {', '.join(ESTIMATORS)}"))
    of = ESTIMATORS[estimator]
    problems: list[Problem] = []
    given = dict(options)
    if form == "verl-agent" and of.verl_agent is not None:
        given = {**of.verl_agent, **options}
    elif form != "paper":
        what = f"{estimator} has no form {form!r}"
        problems.append(Problem("form", what, "'paper'" if of.verl_agent is None else "'paper' or 'verl-agent'"))
    takes = of.options
    problems += option_problems(estimator, given)
    for name, default in takes.items():
        if any(given.get(name, default) is absent for absent in (REQUIRED, Parameter.empty)):
            why = f"{estimator} needs it" + (" in verl-agent's form" if default is not Parameter.empty else "")
            problems.append(Problem(name, "is missing", why))
    for name in of.needs:
        if getattr(steps.rows, name) is None:
            problems.append(Problem(f"steps.{name}", "is missing", f"{estimator} compares by it"))
    if problems:
        raise InputError(problems)
    return steps.rows.scattered(of.compute(steps.rows, **given))


def option_problems(estimator: str, options: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the options given for an estimator of `ESTIMATORS`: unknown names, impossible values."""
    takes = ESTIMATORS[estimator].options
    fix = f"it has {', '.join(takes)}"
    unknown = [Problem(name, f"is no option of {estimator}", fix) for name in options if name not in takes]
    return unknown + problems_of({name: value for name, value in options.items() if name in takes})
