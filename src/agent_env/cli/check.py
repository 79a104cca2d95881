"""``agent-env check BUNDLE``: find what would fail in training."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
) -> None:
    """Play a bundle as training would, and list what would fail there: one line a finding, exit status 1 if any."""
    from rich.console import Console

    from agent_env.checking import check_bundle

    episodes = 0
    with Console(stderr=True).status(f"checking {bundle}") as status:

        def said(kind: str) -> None:
            nonlocal episodes
            if kind in ("played", "crowd"):
                episodes += 1
                status.update(f"checking {bundle}: {episodes} episodes played")

        report = check_bundle(bundle, said)
    for finding in report.findings:
        print(finding)
    if report.findings:
        print(f"{report.summary}: {len(report.findings)} finding{'s' * (len(report.findings) != 1)}")
        raise typer.Exit(1)
    print(f"{report.summary}: nothing found")
