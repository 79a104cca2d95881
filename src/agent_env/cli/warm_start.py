"""``agent-env warm-start BUNDLE OUT``: a tiny model that can already play, to train on a laptop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agent_env.bundle import Bundle
    from agent_env.training.step_options import StepOptions


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
    out: Annotated[Path, typer.Argument(help="Folder for the model and its tokenizer; replaced if it is there.")],
    split: Annotated[str, typer.Option(help="Split whose tasks are demonstrated.")] = "train",
    error_rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="How often the demonstrator errs: the room that training has. 0.3, or 0.1 in the step layout.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of supervised learning: 300, or 500 in the step layout.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    context: Annotated[
        str, typer.Option(metavar="conversation|steps", help="As the model is to be trained (see agent-env train).")
    ] = "conversation",
    step: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the step layout, as for agent-env train.")
    ] = None,
) -> None:
    """Teach a small Qwen3-architecture model to play BUNDLE from its demonstrator, and write it to OUT."""
    from agent_env.bundle import load_bundle
    from agent_env.cli.command import stoppable
    from agent_env.cli.progress import progress_bars
    from agent_env.errors import MissingExtra, Problems
    from agent_env.training.folder import check_target

    with stoppable(lambda: f"{out} is as it was"):
        problems = Problems(check_target(out))
        loaded = problems.of(lambda: load_bundle(bundle))
        if loaded is not None:
            problems.of(lambda: loaded.to_demonstrate(split))
        layout = problems.of(lambda: _layout(context, tuple(step or ()), loaded))
        problems.settle()
        assert loaded is not None
        try:
            from agent_env.training.tiny.warm_start import warm_start
        except ModuleNotFoundError as error:
            raise MissingExtra("cpu", error.name or "torch") from error
        with progress_bars() as progress:
            made = warm_start(
                loaded,
                out,
                split=split,
                layout=layout,
                error_rate=error_rate,
                steps=steps,
                seed=seed,
                progress=progress,
            )
    print(
        f"wrote a model of {made.parameters:,} parameters and {made.vocabulary} tokens to {out}\n"
        f"it learned from {made.plays} plays with a mean reward of {made.demonstrated:.3f}; loss {made.loss:.3f}"
    )


def _layout(context: str, step: Sequence[str], bundle: Bundle | None) -> StepOptions | None:
    """The options of the step layout; None for a conversation. Raises InputError with all that cannot be used."""
    from agent_env.training.step_layout import combined
    from agent_env.training.verl.writer import layout_options

    own = layout_options(context, step)
    return None if context != "steps" or bundle is None else combined([bundle.step_layout], own, bundle.path)
