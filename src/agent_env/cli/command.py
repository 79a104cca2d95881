"""What all commands share: every argument that cannot be read is reported, and a signal ends one in one line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from agent_env.errors import InputError, Problem
from agent_env.stopping import Stopped, stopping
from agent_env.tokens import TokenSource

TokenVar = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable with the task server's token.")
]
TokenFile = Annotated[
    str | None, typer.Option(metavar="PATH", help="File with the task server's token, in its first line.")
]
"""``--token-var`` and ``--token-file`` of the commands that play a task server."""


class Command(TyperCommand):
    """A command that reports every argument that cannot be read. typer alone stops at the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments into `ctx`. Raises InputError with all that cannot be read."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter:
            raise InputError(self._problems(ctx, given)) from None

    def _problems(self, ctx: Any, args: list[str]) -> list[Problem]:
        values, rest, _ = self.make_parser(ctx).parse_args(args=args)
        problems, fix = [], f"see {ctx.command_path} --help"
        for param in self.get_params(ctx):
            try:
                _, rest = param.handle_parse_result(ctx, values, rest)
            except typer.BadParameter as error:
                option = param.opts[0].startswith("-")
                where = param.opts[0] if option else str(param.metavar or param.name).upper()
                if (value := values.get(param.name or "")) is None:
                    problems.append(Problem(where, "is missing", fix))
                else:
                    problems.append(Problem(where, f"{error.message}, got {value!r}", fix))
        return problems


@contextlib.contextmanager
def stoppable(said: Callable[[], str]) -> Iterator[None]:
    """Within, SIGINT, SIGTERM and SIGHUP end the command with exit status 128 + the signal's number.

    Args:
        said: how things stand then, in one line.
    """
    try:
        with stopping():
            yield
    except Stopped as signal:
        print(f"agent-env: stopped: {said()}", file=sys.stderr)
        raise typer.Exit(128 + signal.number) from None


def token_source(var: str | None, file: str | None) -> TokenSource:
    """Where the token is, by the options ``--token-var`` and ``--token-file``. Raises InputError, which names those."""
    try:
        return TokenSource(var, file)
    except InputError as error:
        named = {"token_var": "--token-var", "token_file": "--token-file"}
        raise InputError([replace(problem, where=named[problem.where]) for problem in error.problems]) from None
