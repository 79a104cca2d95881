"""What a user sees of a run that goes on: a line for each step and evaluation, from verl's metrics file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

MISSING = "validation/missing"
"""The metric of our trainers that is 1 for an evaluation of which every rollout failed."""


class Tail:
    """Reads a file that another process appends lines to; whole lines only.

    Args:
        path: need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def lines(self) -> Iterator[str]:
        """The lines that have come since the last call, with their newlines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        yield from whole.decode("utf-8", "replace").splitlines(keepends=True)


class Progress:
    """Follows a run's metrics.

    Args:
        part: the file verl writes in this start.
        whole: the run's metrics; lines of another file are appended to it as they come.
        total: steps the run has.
        say: prints a line.

    Attributes:
        step: the last step whose metrics have come; None before the first.
        missing: the steps after which an evaluation was due, of which every rollout failed.
    """

    def __init__(self, part: Path, whole: Path, total: int, say: Callable[[str], None]) -> None:
        self._tail, self._whole, self._total, self._say = Tail(part), None if part == whole else whole, total, say
        self.step: int | None = None
        self.missing: list[int] = []

    def update(self) -> None:
        """Take in what has come."""
        lines = list(self._tail.lines())
        if lines and self._whole is not None:
            with self._whole.open("a", encoding="utf-8") as file:
                file.write("".join(lines))
        for line in lines:
            try:
                content = json.loads(line)
                self.step = int(content["step"])
                text = describe(self.step, self._total, content["data"])
                if content["data"].get(MISSING):
                    self.missing.append(self.step)
            except (ValueError, KeyError, TypeError):
                continue
            for part in text:
                self._say(part)


def describe(step: int, total: int, data: Mapping[str, Any]) -> list[str]:
    """A step's metrics in a line or two: reward, time, lost rollouts; the evaluation, if there was one."""
    lines = []
    if "critic/score/mean" in data:
        parts = [f"step {step:>{len(str(total))}}/{total}", f"reward {data['critic/score/mean']:.3f}"]
        if "timing_s/step" in data:
            parts.append(f"{data['timing_s/step']:.1f} s")
        lost = data.get("training/rollout_failure/lost_sessions", 0)
        if lost:
            parts.append(f"{lost:.0f} rollouts lost: see the log")
        lines.append("  ".join(parts))
    if data.get(MISSING):
        lines.append(f"eval after step {step}: missing, for every rollout of it failed: see the log")
    for key, value in data.items():
        # val-core/<data source>/reward/mean@1; the data source has slashes in it
        if key.startswith("val-core/") and "/reward/mean@" in key:
            source = key.removeprefix("val-core/").split("/reward/mean@")[0]
            lines.append(f"eval after step {step}: reward {value:.3f}  ({source})")
    return lines
