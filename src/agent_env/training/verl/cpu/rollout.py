"""The name of our rollout in verl's configuration, and where verl finds it."""

from __future__ import annotations

from typing import Any

ROLLOUT = "hf_cpu"


def register_rollout() -> None:
    """Make ``actor_rollout_ref.rollout.name=hf_cpu`` known to verl, which imports the rest when it is asked for."""
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    RolloutReplicaRegistry.register(ROLLOUT, _replica)
    _ROLLOUT_REGISTRY[ROLLOUT, "async"] = "agent_env.training.verl.cpu.replica.WeightSync"


def _replica() -> Any:
    from agent_env.training.verl.cpu.replica import Replica

    return Replica
