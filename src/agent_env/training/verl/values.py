"""Values of verl's settings that no run can have: verl itself would find each only once all has been started."""

from __future__ import annotations

import math
from typing import Any

from omegaconf import DictConfig, OmegaConf

from agent_env.errors import InputError, Problem

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
COUNTS = (
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    f"{_ROLLOUT}.n",
    f"{_ROLLOUT}.val_kwargs.n",
    f"{_ROLLOUT}.agent.num_workers",
    f"{_ACTOR}.ppo_mini_batch_size",
    f"{_ACTOR}.ppo_epochs",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
)
"""Settings that are 1, 2, …"""
EVERY = ("trainer.save_freq", "trainer.test_freq")
"""Settings that are a number of steps, or -1 for never."""
AMOUNTS = (f"{_ACTOR}.optim.lr", f"{_ROLLOUT}.temperature", f"{_ROLLOUT}.val_kwargs.temperature")
"""Settings that are numbers from 0 on."""
SHARES = (f"{_ROLLOUT}.top_p", f"{_ROLLOUT}.val_kwargs.top_p")
"""Settings that are shares of a whole."""
TURNS = ("max_assistant_turns", "max_user_turns")


def check_values(config: DictConfig) -> None:
    """Check the values of verl's whole configuration that are easily got wrong.

    Raises:
        InputError: with all problems.
    """
    problems = []

    def expect(key: str, holds: bool, what: str) -> None:
        if not holds:
            problems.append(Problem(f"{key}={shown(OmegaConf.select(config, key))}", f"expected {what}"))

    for key in COUNTS:
        expect(key, _count(OmegaConf.select(config, key)), "a number: 1, 2, …")
    for key in EVERY:
        value = OmegaConf.select(config, key)
        expect(key, _count(value) or value == -1, "a number of steps, or -1 for never")
    for key in AMOUNTS:
        value = OmegaConf.select(config, key)
        expect(key, _number(value) and value >= 0, "a number from 0 on")
    for name in TURNS:
        # verl takes a limit of 0 turns for no limit at all, which nobody means who writes it.
        key = f"{_ROLLOUT}.multi_turn.{name}"
        value = OmegaConf.select(config, key)
        expect(key, value is None or _count(value), "1, 2, … turns, or null for no limit (which 0 means to verl)")
    batch, mini = config.data.train_batch_size, OmegaConf.select(config, f"{_ACTOR}.ppo_mini_batch_size")
    if _count(batch) and _count(mini) and batch % mini:
        what = f"does not divide data.train_batch_size ({batch})"
        fix = f"set it to {', '.join(str(n) for n in range(1, min(batch, 64) + 1) if batch % n == 0)}"
        problems.append(Problem(f"{_ACTOR}.ppo_mini_batch_size={mini}", what, fix))
    for key in SHARES:
        value = OmegaConf.select(config, key)
        expect(key, _number(value) and 0 < value <= 1, "a number above 0, up to 1")
    if problems:
        raise InputError(problems)


def shown(value: Any) -> str:
    """A value as a user would have typed it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
