"""``agent-env check BUNDLE``: find what would fail in training."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

if TYPE_CHECKING:
    from agent_env.checking.runner import Said, Waiting

SLOW = 2.0
"""Seconds after which what is waited for is shown."""
EVERY = 10.0
"""Seconds between two lines in a log on one wait."""


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
) -> None:
    """Play a bundle as training would, and list what would fail there: one line a finding, exit status 1 if any.

    The exit status is 2 for a bundle that cannot be loaded.
    """
    from agent_env.checking import check_bundle
    from agent_env.cli.command import stoppable
    from agent_env.hosting.guardian import Guardian

    # Even if this process is killed, what the bundle's code started ends, and its working folders go.
    guardian = Guardian()
    last: list[Waiting] = []

    def stood() -> str:
        where = f"; it stood at {last[0].doing}, {last[0].episodes} episodes played" if last else ""
        return f"the check is not through{where}"

    try:
        with (
            stoppable(stood),
            guardian.scratch("agent-env-check-") as scratch,
            _progress(bundle) as shown,
        ):

            def said(at: Waiting) -> None:
                last[:] = [at]
                shown(at)

            report = check_bundle(bundle, said, scratch)
    finally:
        guardian.close()
    for finding in report.findings:
        print(finding)
    if report.findings:
        print(f"{report.summary}: {len(report.findings)} finding{'s' * (len(report.findings) != 1)}")
        raise typer.Exit(1 if report.loaded else 2)
    print(f"{report.summary}: nothing found")


@contextlib.contextmanager
def _progress(bundle: str) -> Iterator[Said]:
    """Yields what to call as the check goes on: a terminal shows it, a log has a line when a wait is a long one."""
    from rich.console import Console

    console = Console(stderr=True)
    title, lines = f"checking {bundle}", 0

    with console.status(title) if console.is_terminal else contextlib.nullcontext() as status:

        def said(at: Waiting) -> None:
            nonlocal lines
            waiting = f"{at.doing} for {at.since:.0f} s (at most {at.most:.0f} s)"
            if status is not None:
                done = f"{at.episodes} episodes played"
                status.update(escape(f"{title}: {waiting if at.since >= SLOW else done}"))
            elif at.since < SLOW:
                lines = 0
            elif at.since >= EVERY * (lines + 1):
                lines += 1
                print(f"{title}: {waiting}", file=sys.stderr, flush=True)

        yield said
