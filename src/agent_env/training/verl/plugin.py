"""What verl loads at ``import verl``, in the driver and in every Ray worker: its ``verl.plugins`` entry point.

It adds three trainers to verl's (``agentenv_sync``, ``agentenv_colocate_async``, ``agentenv_separate_async``), which
do nothing for a run that does not name one, and verl's CPU backend if ``VERL_PLATFORM=cpu`` asks for it: installed on
a GPU cluster it changes nothing.

verl only loads an entry point, it doesn't call what it finds, and it logs an exception at DEBUG, where nobody sees it;
training would go on until something further away fails. So this module registers when it is imported, and a failure
ends the process with a message instead: `SystemExit` is no `Exception`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

logger = logging.getLogger(__name__)

ENTRY_POINT = "agent_env"
"""The plugin's name in the group ``verl.plugins``, also for ``VERL_USE_EXTERNAL_PLUGINS``."""


def asked_for() -> bool:
    """Whether this process is to run verl on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def register() -> None:
    """Give verl our trainers, and its CPU platform, engines and rollout server, if `asked_for`. Safe to call again.

    The platform is there at once; the others as soon as verl imports the modules that know of engines and rollouts.

    Raises:
        SystemExit: they could not be registered; the message says why.
    """
    from agent_env.training.verl.hooks import after_import

    after_import("verl.trainer.ppo.v1", _trainers)
    if not asked_for():
        return
    _or_exit(_platform)
    _or_exit(_processors)
    after_import("verl.workers.engine", lambda: _or_exit(_engines))
    after_import("verl.workers.rollout.replica", lambda: _or_exit(_rollout))


def _trainers() -> None:
    try:
        import agent_env.training.verl.trainers  # noqa: F401 (it registers them)
    except Exception as error:
        # A run that names none of them goes on; one that does is refused by verl, which does not know it.
        logger.error("agent-env: its trainers agentenv_* are not available: %r", error)


def _platform() -> None:
    from agent_env.training.verl.cpu.platform import install

    install()


def _processors() -> None:
    from agent_env.training.verl.processors import register_processors

    register_processors()


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
