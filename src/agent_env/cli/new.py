"""``agent-env new PATH``: write a bundle to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(path: Annotated[Path, typer.Argument(help="The folder to write; its last part names the bundle.")]) -> None:
    """Write a small bundle that trains as it is: an environment, its tasks and a scripted player, to be changed."""
    from agent_env.new import write_bundle

    written = write_bundle(path)
    print(f"wrote {', '.join(written)} to {path}")
    print(f"next: agent-env check {path}")
