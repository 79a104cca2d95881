"""A bar on stderr for each part of a long job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Tell = Callable[[str, int, int], None]
"""Told what is being done, and how many of its steps are done, of how many."""


@contextlib.contextmanager
def progress_bars() -> Iterator[Tell]:
    """Yields what to call with each step; on a terminal the bars move, in a log each part is a line when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        parts: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in parts:
                parts[what] = bars.add_task(what, total=total)
            bars.update(parts[what], completed=done, total=total)
            if done == total and not console.is_terminal:
                console.print(f"{what}: {total} done")

        yield tell
