"""``agent-env env``: which built-in bundles there are, and installing what one of them needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_env.cli.command import Command, stoppable

app = typer.Typer(help="List the built-in bundles, and install what one needs.", no_args_is_help=True)


@app.command("list", cls=Command)
def list_bundles() -> None:
    """List the built-in bundles: whether each is installed, and whether it plays official data or its own."""
    from agent_env.bundle import built_in_bundles
    from agent_env.install.installer import setup_of

    rows = [(name, setup.state, setup.data) for name in built_in_bundles() for setup in [setup_of(name)]]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, state, data in rows:
        print(f"{name:<{first}}  {state:<{second}}  {data}")


@app.command("install", cls=Command)
def install(
    bundle: Annotated[str, typer.Argument(help="The name of a built-in bundle, or a bundle's folder.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE_OR_FOLDER", help="Install from these wheels, without a network."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Say what BUNDLE needs, how large it is and under which licence, and install it.

    Safe to call twice. Packages that are installed keep their versions.
    """
    from agent_env.errors import InputError, Problem
    from agent_env.install.installer import install as install_setup
    from agent_env.install.installer import setup_of
    from agent_env.install.pip import InstallFailed

    setup = setup_of(bundle)
    for line in setup.told(source):
        print(line)
    if setup.manifest.install is None:
        print(f"{setup.manifest.name} has nothing to install")
        return
    sys.stdout.flush()
    if setup.lacks and not yes:
        if not sys.stdin.isatty():
            raise InputError(Problem("--yes", "is missing, and nobody is there to ask", "give it to install the above"))
        typer.confirm("Install this?", abort=True)
    with stoppable(lambda: "the same command begins again with what was downloaded"):
        try:
            loaded = install_setup(setup, source)
        except InstallFailed as error:
            print(f"agent-env: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
    tasks = len(loaded.tasks("all"))
    print(f"{loaded.name} is installed: {tasks} tasks; agent-env serve {bundle}")
