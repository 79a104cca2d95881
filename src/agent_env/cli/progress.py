"""A bar on stderr for each part of a long job."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Tell = Callable[[str, int, int], None]
"""Told what is being done, and how many of its steps are done, of how many."""


@contextlib.contextmanager
def progress_bars(every: float = 10.0) -> Iterator[Tell]:
    """Yields what to call with each step: on a terminal bars move, in a log there is a line each `every` seconds."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    if "transformers" in sys.modules:  # it has bars of its own, for files that take no time here
        from transformers.utils import logging

        logging.disable_progress_bar()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        parts: dict[str, TaskID] = {}
        said: dict[str, float] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in parts:
                parts[what] = bars.add_task(what, total=total)
            bars.update(parts[what], completed=done, total=total)
            now = time.monotonic()
            # What comes slowly says first that it was begun.
            begun = done == 0 and what not in said
            if not console.is_terminal and (begun or done == total or now >= said.setdefault(what, now) + every):
                said[what] = now
                console.print(f"{what}: {done} of {total}")

        yield tell
