"""The context layout that a model was trained in, as what lies beside it says. In the other it knows nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = "warm_start.json"
"""The file in which a warm start says how the model beside it came about."""


def record_of(model: Path) -> Any:
    """What a warm start wrote of the model in a folder; None if nothing that can be read lies there."""
    try:
        return json.loads((model / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def known_layout(model: str) -> str | None:
    """``conversation`` or ``steps``: the layout that a model in a folder was warm-started or trained in.

    A warm start leaves a record in the model's folder. A checkpoint of a run lies in
    ``RUN/checkpoints/global_step_N/actor/huggingface``, and ``RUN/config.yaml`` says how the run was laid out.

    Args:
        model: a folder; anything else has no known layout.
    """
    folder = Path(model).resolve()
    told = record_of(folder)
    if told is None and folder.name == "huggingface" and len(folder.parents) > 3:
        told = _yaml(folder.parents[3] / "config.yaml")
    context = told.get("context") if isinstance(told, dict) else None
    return context if context in ("conversation", "steps") else None


def mismatch(model: str, context: str) -> str | None:
    """What to warn of, in a line, if a model is shown episodes in another layout than it was trained in."""
    known = known_layout(model)
    if known in (None, context):
        return None
    return f"{model} was trained with --context {known}; with --context {context} it sees what it never learned from"


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
