"""``agent-env train BUNDLE_OR_URL``: train a model on tasks with verl."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_env.cli.command import TokenFile, TokenVar, token_source


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="BUNDLE_OR_URL", help="A bundle, which is then served here, or a task server's URL."),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="verl's own settings; they win over others.")
    ] = None,
    model: Annotated[str, typer.Option(help="Folder with a model and its tokenizer, or its name on the hub.")] = "",
    run: Annotated[str, typer.Option(metavar="NAME", help="Its folder is runs/NAME; a run that began goes on.")] = "",
    recipe: Annotated[str, typer.Option(help="How to learn: a recipe's name, or a YAML file.")] = "grpo",
    profile: Annotated[str, typer.Option(help="Where to run: cpu, one_gpu, cluster, or a YAML file.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Of data order and sampling.")] = 1,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 40,
    token_var: TokenVar = None,
    token_file: TokenFile = None,
    train_split: Annotated[str, typer.Option(help="Split to train on.")] = "train",
    eval_split: Annotated[str, typer.Option(help="Split to evaluate on.")] = "eval",
    context: Annotated[
        str | None,
        typer.Option(
            metavar="conversation|steps",
            help="One growing conversation, or a fresh prompt each step; the recipe's or model's if not given.",
        ),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the step layout, such as memory or max_steps."),
    ] = None,
    attempts: Annotated[int, typer.Option(help="Episodes a rollout may begin.")] = 3,
    reset_timeout: Annotated[
        float, typer.Option(help="Seconds for a reset; sessions are waited for and attempts started as long.")
    ] = 600.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands, and do nothing.")] = False,
) -> None:
    """Train a model on the tasks of a bundle or server with verl, and keep everything in runs/NAME.

    Stopped or killed, the same command goes on from the last checkpoint.
    """
    from agent_env.cli.progress import progress_bars
    from agent_env.errors import Problems
    from agent_env.stopping import Stopped
    from agent_env.tokens import NO_TOKEN
    from agent_env.training.verl import launch
    from agent_env.training.verl.plan import TrainOptions, checked

    problems = Problems()
    folder = problems.of(lambda: _folder(run))
    options = TrainOptions(
        source=source,
        model=model,
        # Without a usable name all else is checked for a run that is new.
        run=folder or Path("runs") / secrets.token_hex(8),
        recipe=recipe,
        profile=profile,
        seed=seed,
        steps=steps,
        overrides=tuple(overrides or ()),
        token=problems.of(lambda: token_source(token_var, token_file)) or NO_TOKEN,
        train_split=train_split,
        eval_split=eval_split,
        context=context,
        step_options=tuple(step or ()),
        attempts=attempts,
        reset_timeout=reset_timeout,
    )
    if problems:
        problems.of(lambda: checked(options))
        problems.settle()
    if dry_run:
        print(launch.dry_run(options))
        return
    try:
        with progress_bars() as progress:
            done = launch.train(options, say=lambda line: print(line, flush=True), tell=progress)
    except launch.RunFailed as error:
        print(f"agent-env: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except Stopped as signal:
        print(f"agent-env: stopped; the same command goes on with {options.run}", file=sys.stderr)
        raise typer.Exit(128 + signal.number) from None
    print(f"{done.steps} steps; everything is in {done.folder}")
    if done.checkpoint is not None:
        print(f"the model is in {done.checkpoint / 'actor' / 'huggingface'}")
    if done.missing:
        after = ", ".join(map(str, done.missing))
        print(f"agent-env: the evaluation after step {after} is missing; the log says why", file=sys.stderr)
        raise typer.Exit(1)


def _folder(name: str) -> Path:
    """The folder of a run. Raises InputError for a name with a slash, whose folder would be elsewhere."""
    from agent_env.errors import InputError, Problem

    if not name:
        raise InputError(Problem("--run", "is missing", "name the run: its folder is runs/NAME"))
    if Path(name).name != name:
        raise InputError(Problem("--run", f"{name!r} is no name for a run", "use letters, digits, . _ and -"))
    return Path("runs") / name
