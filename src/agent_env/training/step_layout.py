"""What a server's bundles say of the step layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.training.shared import Shared
from agent_env.training.step_options import StepOptions
from agent_env.training.task_api import TaskApi


async def step_options(shared: Shared, own: dict[str, Any], bundle: Path | None = None) -> StepOptions:
    """The options of a training: a user's own over the bundle's over the defaults.

    Args:
        shared: the server.
        own: of the user.
        bundle: the folder of the bundle that the server serves, if it is here: where its memory is loaded from.

    Raises:
        InputError: options that cannot be used, all of them; or several bundles that want different layouts.
        SessionError: the server cannot be read.
    """
    async with TaskApi.open(shared) as api:
        layouts = await api.step_layouts()
    return combined(layouts, own, bundle)


def combined(layouts: Sequence[Mapping[str, Any]], own: Mapping[str, Any], bundle: Path | None) -> StepOptions:
    """A user's own options over what bundles say of the layout (`Bundle.step_layout`) over the defaults.

    Raises:
        InputError: as `step_options`.
    """
    said: dict[str, Any] = {}
    for name in ("step_prompt", "tags", "memory", "max_steps"):
        values = {json.dumps(layout.get(name)): layout.get(name) for layout in layouts}
        if len(values) > 1 and name not in own:
            which = ", ".join(str(layout.get("bundle")) for layout in layouts)
            what = f"differs between the bundles of this server ({which}), and a loop has one"
            raise InputError(Problem(name, what, f"choose one: --step {name}=..."))
        value = next(iter(values.values()), None)
        if value is not None and name not in own:
            said[name] = value
    memory = said.get("memory")
    if isinstance(memory, str) and ":" in memory:
        said["memory"] = _file_of(memory, bundle)
    return StepOptions().with_({**said, **own})


def _file_of(memory: str, bundle: Path | None) -> str:
    """A bundle's ``module:Class`` by its file. Nothing is imported because a server somewhere names it."""
    module, _, member = memory.partition(":")
    file = None if bundle is None else bundle.joinpath(*module.split(".")).with_suffix(".py")
    # What the server says may be a path (/x/y.py) as well as a module: it counts only within the bundle that is here.
    if bundle is None or file is None or not file.is_file() or not file.resolve().is_relative_to(bundle.resolve()):
        fix = "choose one that is here: --step memory=/path/to/file.py:Class, or --step 'memory=recent(2)'"
        raise InputError(Problem("memory", f"the bundle's own, {memory}, is not on this machine", fix))
    return f"{file.resolve()}:{member}"
