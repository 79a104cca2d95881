"""AppWorld's data: the official one where it is, else mini-worlds of our own, made once and kept."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from agent_env.cache import kept
from agent_env.install.needs import official_data, venv_python
from agent_env.install.pip import run

from .worlds import HERE

INSIDE = HERE / "inside"

SPLITS = {"train": "train", "eval": "test_normal", "eval-unseen": "test_challenge"}
"""AppWorld's names of our splits."""
INNER = "data"


def data_folder() -> Path:
    """The folder with ``tasks`` and ``datasets`` in it. Our own is made by the first call, in about a minute.

    Raises:
        BundleError: AppWorld is not installed.
        InstallFailed: our own could not be made; the output above says why.
    """
    official = official_data(HERE)
    return official / INNER if official is not None else _own()


@cache
def _own() -> Path:
    scripts = [INSIDE / "making.py", INSIDE / "kinds.py", HERE / "pins.txt"]
    digest = hashlib.sha256(b"\0".join(script.read_bytes() for script in scripts)).hexdigest()[:16]

    def make(folder: Path) -> None:
        run([venv_python(HERE), "-sE", "-W", "ignore", scripts[0], folder])

    return kept(f"appworld/worlds-{digest}", make)


def task_names(split: str) -> list[str]:
    """The tasks of a split, in AppWorld's order."""
    lines = (data_folder() / "datasets" / f"{SPLITS[split]}.txt").read_text(encoding="utf-8").split()
    return [line.split(":")[0] for line in lines]


def specs(task: str) -> dict[str, Any]:
    """What is public of a task: ``instruction``, ``supervisor``, ``datetime``."""
    found: dict[str, Any] = json.loads((data_folder() / "tasks" / task / "specs.json").read_text(encoding="utf-8"))
    return found


def steps(task: str) -> list[str] | None:
    """Code that does a task, a block a step: ours, or AppWorld's own solution; None where there is none."""
    truth = data_folder() / "tasks" / task / "ground_truth"
    if (truth / "steps.json").is_file():
        blocks: list[str] = json.loads((truth / "steps.json").read_text(encoding="utf-8"))
        return blocks
    if (truth / "compiled_solution.py").is_file():
        return [(truth / "compiled_solution.py").read_text(encoding="utf-8") + "\nsolution(apis, requester)"]
    return None
