"""``trainer.v1.agentenv``: the options of our trainers, and what of the credit asked for cannot be given.

Apart from the trainers, so that a launcher can check them without torch and Ray.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

from omegaconf import DictConfig, OmegaConf

from agent_env.errors import InputError, Problem, Problems
from agent_env.training.credit import ESTIMATORS, option_problems

PREFIX = "agentenv_"
"""What stands before the name of verl's trainer mode, for ours."""
MODES = ("sync", "colocate_async", "separate_async")
"""verl's V1 trainers."""


@dataclass(frozen=True)
class Options:
    """``trainer.v1.agentenv``.

    Args:
        form: the credit estimator's conventions, ``paper`` or ``verl-agent``.
        credit: options of the estimator; ``invalid_penalty`` is not among them, the loop's option is the one.
        session_weight: ``session``: every episode weighs the same in the loss; ``token``: as verl's loss has it.
    """

    form: str = "paper"
    credit: dict[str, Any] = field(default_factory=dict)
    session_weight: str = "session"

    @classmethod
    def read(cls, config: DictConfig) -> Options:
        """The options of verl's whole configuration.

        Raises:
            InputError: with all problems.
        """
        given = OmegaConf.to_container(config.trainer.v1.get("agentenv") or OmegaConf.create({}), resolve=True)
        assert isinstance(given, dict)
        known = [option.name for option in fields(cls)]
        where = "trainer.v1.agentenv"
        problems = [
            Problem(f"{where}.{name}", "is no option", f"use {', '.join(known)}") for name in given if name not in known
        ]
        options = cls(**{str(name): value for name, value in given.items() if name in known})
        if not isinstance(options.credit, dict):
            problems.append(Problem(f"{where}.credit", f"expected options, got {options.credit!r}"))
        elif "invalid_penalty" in options.credit:
            fix = "set the loop's option of that name: --step invalid_penalty=0.1"
            problems.append(Problem(f"{where}.credit.invalid_penalty", "is not read", fix))
        if options.session_weight not in ("session", "token"):
            problems.append(
                Problem(f"{where}.session_weight", f"got {options.session_weight!r}", "one of session, token")
            )
        if problems:
            raise InputError(problems)
        return options


def check_credit(config: DictConfig, layout: str) -> None:
    """Find out before anything starts whether the trainer can give the credit that is asked for.

    Args:
        config: verl's, whole.
        layout: ``conversation`` or ``steps``.

    Raises:
        InputError: with all problems: a trainer mode or an estimator that there is not, an estimator of steps for
            whole conversations, options of our trainers that they do not have.
    """
    problems = Problems()
    mode, estimator = str(config.trainer.v1.trainer_mode), str(config.algorithm.adv_estimator)
    ours = mode.startswith(PREFIX)
    # A library that the user has verl import may register more of both.
    more = bool(os.environ.get("VERL_USE_EXTERNAL_MODULES")) or config.actor_rollout_ref.model.get("external_lib")
    modes = [*MODES, *(PREFIX + name for name in MODES)]
    if mode not in modes and not more:
        problems.append(Problem(f"trainer.v1.trainer_mode={mode}", "there is no such mode", f"use {', '.join(modes)}"))
    where = f"algorithm.adv_estimator={estimator}"
    if not (ours and estimator in ESTIMATORS) and not more:
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

        known = sorted({*ADV_ESTIMATOR_REGISTRY, *(ESTIMATORS if ours else ())})
        if estimator not in known:
            fix = f"use {', '.join(known)}"
            if estimator in ESTIMATORS:
                fix = f"it is one of ours: leave trainer.v1.trainer_mode at {PREFIX}sync, not {mode}"
            problems.append(Problem(where, "there is no such estimator", fix))
    if not ours:
        problems.settle()
        return
    options = problems.of(lambda: Options.read(config))
    if estimator in ESTIMATORS:
        if ESTIMATORS[estimator].compares and config.actor_rollout_ref.rollout.n == 1:
            what = f"leaves {estimator} nothing to compare: every advantage would be 0"
            problems.append(Problem("actor_rollout_ref.rollout.n=1", what, "set it to 2 or more"))
        if layout != "steps" and {"state", "next_state"} & set(ESTIMATORS[estimator].needs):
            what = "compares steps by their states, and a conversation has none"
            problems.append(Problem(where, what, "add --context steps, or choose another estimator"))
        if options is not None:
            problems += [
                Problem(f"trainer.v1.agentenv.credit.{found.where}", found.what, found.fix)
                for found in option_problems(estimator, options.credit)
            ]
    problems.settle()
