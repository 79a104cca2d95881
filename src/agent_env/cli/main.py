"""Entry point of `agent-env`: registers the subcommands and turns our errors into one message and an exit status.

Exit status: 0 done; 1 the command ran and found something wrong (a failed check, a failed run); 2 bad input.
Each subcommand lives in a file of its own and imports what it needs when it runs, so `agent-env --help` stays quick.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from agent_env.cli import check, env, eval, new, recipes, serve, train, warm_start
from agent_env.cli.command import Command
from agent_env.errors import AgentEnvError

app = typer.Typer(
    name="agent-env",
    help="From an environment and its tasks to a trained agent.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"agent-env {version('agentenv-rl')}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """From an environment and its tasks to a trained agent."""


app.command("new", cls=Command)(new.command)
app.command("check", cls=Command)(check.command)
app.command("serve", cls=Command)(serve.command)
app.command("warm-start", cls=Command)(warm_start.command)
app.command("train", cls=Command)(train.command)
app.command("recipes", cls=Command)(recipes.command)
app.command("eval", cls=Command)(eval.command)
app.add_typer(env.app, name="env")


def main() -> None:
    """Run the command line; an error of ours becomes its message on stderr and exit status 2."""
    try:
        app()
    except AgentEnvError as error:
        print(f"agent-env: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
