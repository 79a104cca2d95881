"""``python -m agent_env.training.verl URL OUT``: write a task server's tasks as verl's rows, and the loop's YAML."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_env.cli.command import Command, stoppable
from agent_env.errors import AgentEnvError, InputError, Problem, Problems
from agent_env.training.shared import Shared
from agent_env.training.tasks import Progress
from agent_env.training.verl.writer import LoopOptions, PromptOptions, checked, layout_options, write

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=Command)
def command(
    url: Annotated[str, typer.Argument(help="Of the task server, http://HOST:PORT.")],
    out: Annotated[Path, typer.Argument(help="Folder to write; files of an earlier run are replaced, others stay.")],
    token_var: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Environment variable with the server's token, here and in verl's workers."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="File whose first line is the server's token, here and in verl's workers."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Count each prompt with its tools by this model's chat template."),
    ] = None,
    chat_template_kwargs: Annotated[
        str, typer.Option(metavar="JSON", help="verl's data.apply_chat_template_kwargs, for the count to match.")
    ] = "{}",
    max_prompt_length: Annotated[
        int | None, typer.Option(metavar="N", help="Refuse to write rows of more tokens, which verl would cut.")
    ] = None,
    attempts: Annotated[int, typer.Option(help="Episodes a rollout may begin.")] = 3,
    reset_timeout: Annotated[
        float, typer.Option(help="Seconds for a reset; sessions are waited for and attempts started as long.")
    ] = 600.0,
    call_timeout: Annotated[float, typer.Option(help="Seconds for a tool call or the end of a turn.")] = 120.0,
    connect_timeout: Annotated[float, typer.Option(help="Seconds for a connection.")] = 10.0,
    context: Annotated[
        str,
        typer.Option(
            metavar="conversation|steps", help="One growing conversation, or a fresh prompt each step (docs/steps.md)."
        ),
    ] = "conversation",
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the step layout, such as memory or max_steps."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Folder of the bundle that is served, for a memory class of its own.")
    ] = None,
    draw_seeds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT",
            help="Split to train on: each group of rollouts gets an episode of its own, if the bundle allows it.",
        ),
    ] = None,
    traces: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder that the loop writes a record of each rollout to.")
    ] = None,
) -> None:
    """Write the tasks of the server at URL to OUT: a parquet file per split, and agent_loop.yaml.

    The token is read from its place, now and in every worker; it is in no file that is written.
    """
    problems = Problems()
    server: dict[str, Any] = {
        "token_var": token_var,
        "token_file": token_file,
        "connect_timeout": connect_timeout,
        "call_timeout": call_timeout,
        "reset_timeout": reset_timeout,
    }
    shared = problems.of(lambda: Shared(url, **server))
    template_kwargs = problems.of(lambda: _json_object(chat_template_kwargs))
    prompts = PromptOptions(tokenizer, template_kwargs or {}, max_prompt_length)
    # A worker's working folder is its own.
    traced = None if traces is None else str(Path(traces).absolute())
    loop = LoopOptions(attempts, traced, draw_seeds=tuple(draw_seeds or ()))
    options = problems.of(lambda: layout_options(context, step or ()))
    if options is not None:
        loop = replace(loop, context=context, step_options=options, bundle=bundle)
    with stoppable(lambda: f"{out} is as it was"):
        if shared is None or problems:
            problems.of(lambda: checked(shared, out, loop, prompts))
            named = {name: f"--{name.replace('_', '-')}" for name in server}
            raise InputError([replace(problem, where=named.get(problem.where, problem.where)) for problem in problems])
        with _progress_bar() as progress:
            written = write(shared, out, loop=loop, prompts=prompts, progress=progress)
    typer.echo(f"wrote {', '.join(written.files)} to {out}")
    if written.longest_prompt is not None:
        typer.echo(f"the longest prompt is {written.longest_prompt} tokens with its tools")


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(
            Problem("--chat-template-kwargs", f"is no JSON: {error}", '{"enable_thinking": false}')
        ) from error
    if not isinstance(value, dict):
        raise InputError(Problem("--chat-template-kwargs", f"expected a JSON object, got {text}"))
    return value


@contextlib.contextmanager
def _progress_bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        parts: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in parts:
                parts[what] = bar.add_task(what, total=total)
            bar.update(parts[what], completed=done, total=total)

        yield tell


def main() -> None:
    """Run the command; an error of ours becomes its message on stderr and exit status 2."""
    try:
        app(prog_name="python -m agent_env.training.verl")
    except AgentEnvError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
