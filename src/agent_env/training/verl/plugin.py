"""What verl loads at ``import verl``, in the driver and in every Ray worker: its ``verl.plugins`` entry point.

It does nothing unless ``VERL_PLATFORM=cpu`` asks for a CPU: installed on a GPU cluster it changes nothing.

verl only loads an entry point, it doesn't call what it finds, and it logs an exception at DEBUG, where nobody sees it;
training would go on until something further away fails. So this module registers when it is imported, and a failure
ends the process with a message instead: `SystemExit` is no `Exception`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

ENTRY_POINT = "agent_env"
"""The plugin's name in the group ``verl.plugins``, also for ``VERL_USE_EXTERNAL_PLUGINS``."""


def asked_for() -> bool:
    """Whether this process is to run verl on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def register() -> None:
    """Give verl its CPU platform, engines and rollout server, if `asked_for`. Safe to call again.

    The platform is there at once; the others as soon as verl imports the modules that know of engines and rollouts.

    Raises:
        SystemExit: they could not be registered; the message says why.
    """
    if not asked_for():
        return
    from agent_env.training.verl.hooks import after_import

    _or_exit(_platform)
    after_import("verl.workers.engine", lambda: _or_exit(_engines))
    after_import("verl.workers.rollout.replica", lambda: _or_exit(_rollout))


def _platform() -> None:
    from agent_env.training.verl.cpu.platform import install

    install()


def _engines() -> None:
    from agent_env.training.verl.cpu.engine import register_engines

    register_engines()


def _rollout() -> None:
    from agent_env.training.verl.cpu.rollout import register_rollout

    register_rollout()


def _or_exit(register_part: Callable[[], None]) -> None:
    try:
        register_part()
    except Exception as error:
        raise SystemExit(f"agent-env: VERL_PLATFORM=cpu, but verl's CPU backend failed to load: {error!r}") from error


register()
