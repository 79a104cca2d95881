"""``agent-env check BUNDLE``: find what would fail in training."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
) -> None:
    """Play a bundle as training would, and list what would fail there: one line a finding, exit status 1 if any.

    The exit status is 2 for a bundle that cannot be loaded.
    """
    from rich.console import Console

    from agent_env.checking import check_bundle
    from agent_env.hosting.guardian import Guardian
    from agent_env.stopping import Stopped, stopping

    episodes = 0
    status = Console(stderr=True).status(f"checking {bundle}")

    def said(kind: str) -> None:
        nonlocal episodes
        if kind in ("played", "crowd"):
            episodes += 1
            status.update(f"checking {bundle}: {episodes} episodes played")

    # Even if this process is killed, what the bundle's code started ends.
    guardian = Guardian()
    try:
        with stopping(), status:
            report = check_bundle(bundle, said)
    except Stopped as signal:
        print("agent-env: stopped before the check was through", file=sys.stderr)
        raise typer.Exit(128 + signal.number) from None
    finally:
        guardian.close()
    for finding in report.findings:
        print(finding)
    if report.findings:
        print(f"{report.summary}: {len(report.findings)} finding{'s' * (len(report.findings) != 1)}")
        raise typer.Exit(1 if report.loaded else 2)
    print(f"{report.summary}: nothing found")
