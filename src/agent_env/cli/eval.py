"""``agent-env eval BUNDLE MODEL``: the reward of a model on a split, without a trainer."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from agent_env.cli.command import TokenFile, TokenVar, stoppable, token_source


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="BUNDLE_OR_URL", help="A bundle, which is then served here, or a task server's URL."),
    ],
    model: Annotated[str, typer.Argument(help="Folder with a model and its tokenizer, or its name on the hub.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="verl's settings, as for agent-env train.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to play.")] = "eval",
    temperature: Annotated[float, typer.Option(min=0, help="Of the sampling; 0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the sampling.")] = 1,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Play the first N tasks only.")] = None,
    token_var: TokenVar = None,
    token_file: TokenFile = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="conversation|steps", help="As the model was trained, if that is not known (see agent-env train)."
        ),
    ] = None,
    step: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the step layout, as for agent-env train.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play each task of a split once with MODEL on the CPU, by the loop that training uses; print the mean reward."""
    import os
    import sys

    from agent_env.cli.progress import progress_bars
    from agent_env.errors import MissingExtra, Problems
    from agent_env.tokens import NO_TOKEN
    from agent_env.training.model_layout import known_layout, mismatch
    from agent_env.training.verl.cpu.asked import checked
    from agent_env.training.verl.source import loop_options

    # verl logs every call that a model writes badly as an error; the model is told, and the reward says how it went.
    os.environ.setdefault("VERL_LOGGING_LEVEL", "CRITICAL")
    with stoppable(lambda: "nothing was kept"):
        context = context or known_layout(model) or "conversation"
        own, steps = tuple(overrides or ()), tuple(step or ())
        problems = Problems()
        token = problems.of(lambda: token_source(token_var, token_file)) or NO_TOKEN
        config = problems.of(
            lambda: checked(
                source,
                model,
                split,
                seed=seed,
                overrides=own,
                token=token,
                context=context,
                step_options=steps,
            )
        )
        problems.settle()
        if warning := mismatch(model, context):
            print(f"agent-env: warning: {warning}", file=sys.stderr)
        try:
            from agent_env.training.verl.cpu.evaluate import evaluate, rows_of
        except ModuleNotFoundError as error:
            raise MissingExtra("cpu", error.name or "verl") from error
        loop = loop_options(source, context, steps)
        with (
            progress_bars() as progress,
            rows_of(source, config, token=token, loop=loop, progress=progress) as data,
        ):
            found = evaluate(config, data, split, temperature=temperature, n=n, progress=progress)
    mean = found.mean
    if as_json:
        told = {"mean": mean.mean, "stderr": mean.stderr, "n": mean.n, "failed": len(found.failures)}
        print(json.dumps({**told, "split": split, "temperature": temperature, "seed": seed}))
        return
    print(f"reward {mean} (standard error) on {mean.n} tasks of {split}, temperature {temperature:g}")
    for failure in found.failures:
        print(f"not scored: {failure}")
