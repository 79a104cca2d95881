"""Where tasks come from: a bundle, which is then served here, or a task server's URL; checked before either is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_env.bundle import find_bundle, load_bundle
from agent_env.errors import InputError, Problem, Problems
from agent_env.tokens import TokenSource
from agent_env.training.shared import Shared
from agent_env.training.verl.writer import LoopOptions, layout_options


def is_url(source: str) -> bool:
    """Whether a source is a task server's URL."""
    return "://" in source


def check_source(source: str, token: TokenSource, splits: Mapping[str, str]) -> None:
    """Find out, without asking a server, whether tasks can be had.

    Args:
        token: where the server's is.
        splits: that must have tasks, by the option that asks for each.

    Raises:
        InputError: with everything that is in the way.
    """
    problems = Problems()
    problems.of(token.read)
    if is_url(source):
        problems.of(lambda: Shared(source))
    if not is_url(source) and (bundle := problems.of(lambda: load_bundle(source))) is not None:
        tasks = {name: len(tasks) for name, tasks in bundle.splits.items()}
        problems.of(lambda: check_splits(source, splits, tasks))
    problems.settle()


def loop_options(source: str, context: str, step_options: Sequence[str], traces: str | None = None) -> LoopOptions:
    """The loop's options for what a user asks for.

    Args:
        context: ``conversation`` or ``steps``.
        step_options: of the step layout, as typed.
        traces: folder for traces; None for none.

    Raises:
        InputError: with everything that cannot be used.
    """
    options = layout_options(context, step_options)
    bundle = None if is_url(source) else find_bundle(source)
    return LoopOptions(traces=traces, context=context, step_options=options, bundle=bundle)


def check_splits(source: str, splits: Mapping[str, str], tasks: Mapping[str, int]) -> None:
    """Raises InputError if a split that is asked for has no tasks.

    Args:
        splits: by the option that asks for each; ``all`` is every split.
        tasks: the number of tasks by split.
    """
    there = ", ".join(f"{name} ({count})" for name, count in tasks.items()) or "none"
    problems = [
        Problem(option, f"{source} has no tasks in split {split!r}", f"its splits: {there}")
        for option, split in splits.items()
        if not tasks.get(split) and split != "all"
    ]
    if problems:
        raise InputError(problems)
