"""What a run came to, read from its traces: evals with their standard errors, rollouts, a curve, a screen of text.

``summary.json`` of a run's folder is made of the same numbers::

    {"seed": 1, "eval": {"0": {"mean": …, "stderr": …, "n": 200}, …}, "greedy": {"0": …, "40": …},
     "rollouts": {"played": …, "replayed": …, "failed": …}, "seconds": {"warm_start": …, "train": …, …}}
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_env.errors import InputError
from agent_env.files import write_atomically
from agent_env.training.traces import Trace

Json = dict[str, Any]


@dataclass(frozen=True)
class Mean:
    """Mean reward of `n` rollouts and its standard error (the sample's deviation over the root of n; 0 for one)."""

    mean: float
    stderr: float
    n: int

    @classmethod
    def of(cls, rewards: Sequence[float]) -> Mean:
        """Raises InputError for no rewards."""
        if not rewards:
            raise InputError("no rollout was scored, so there is no mean reward: the traces say what failed")
        spread = statistics.stdev(rewards) if len(rewards) > 1 else 0.0
        return cls(statistics.fmean(rewards), spread / math.sqrt(len(rewards)), len(rewards))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.stderr:.3f}"


@dataclass(frozen=True)
class Rollouts:
    """Rollouts that were scored, those of them that took more than one attempt, and those that never were."""

    played: int
    replayed: int
    failed: int


@dataclass(frozen=True)
class Curve:
    """Evals and training rewards (means of a step's rollouts) by training step."""

    evals: Mapping[int, Mean]
    training: Mapping[int, float]
    rollouts: Rollouts


def read_curve(traces: Iterable[Trace], split: str = "eval") -> Curve:
    """The curve of a run whose evals are of `split`.

    What a resumed run played again counts once, as it was played last.
    """
    every = _counted(traces)
    evals: dict[int, list[float]] = defaultdict(list)
    training: dict[int, list[float]] = defaultdict(list)
    for trace in every:
        if trace.reward is not None and trace.step is not None:
            (evals if trace.split == split else training)[trace.step].append(trace.reward)
    return Curve(
        {step: Mean.of(rewards) for step, rewards in sorted(evals.items())},
        {step: statistics.fmean(rewards) for step, rewards in sorted(training.items())},
        Rollouts(
            sum(trace.status == "ok" for trace in every),
            sum(trace.status == "ok" and trace.attempts > 1 for trace in every),
            sum(trace.status == "failed" for trace in every),
        ),
    )


def _counted(traces: Iterable[Trace]) -> list[Trace]:
    """Of the rollouts with one place in a run (step, task and number in the task's group) the last."""
    found = {(trace.step, trace.split, trace.index, trace.info.get("session_id")): trace for trace in traces}
    return list(found.values())


def summary_of(curve: Curve, greedy: Mapping[int, Mean], seconds: Mapping[str, float], seed: int) -> Json:
    """What ``summary.json`` holds."""
    return {
        "seed": seed,
        "eval": {str(step): asdict(mean) for step, mean in curve.evals.items()},
        "greedy": {str(step): asdict(mean) for step, mean in greedy.items()},
        "rollouts": asdict(curve.rollouts),
        "seconds": {part: round(value, 1) for part, value in seconds.items()},
    }


def write_summary(summary: Json, file: Path) -> None:
    """Write ``summary.json``, whole or not at all."""
    write_atomically(file, json.dumps(summary, indent=2) + "\n")


def screen_of(summary: Json, folder: Path, title: str) -> str:
    """The run on one screen of text.

    Args:
        summary: as `summary_of` makes it.
        folder: of the run, which the screen says the contents of.
    """
    steps = list(summary["eval"])
    rows = [("step", *steps)]
    for name, key in (("temperature 1", "eval"), ("greedy", "greedy")):
        means = {step: Mean(**mean) for step, mean in summary[key].items()}
        rows.append((name, *(str(means[step]) if step in means else "" for step in steps)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    count = max((mean["n"] for mean in summary["eval"].values()), default=0)
    played = summary["rollouts"]
    seconds = ", ".join(f"{part.replace('_', ' ')} {value:.0f} s" for part, value in summary["seconds"].items())
    inside = [(name, what) for name, what in _CONTENTS.items() if (folder / name).exists()]
    return "\n".join(
        [
            title,
            "",
            f"reward on {count} held-out tasks, mean ± standard error",
            *table,
            "",
            f"rollouts: {played['played']} played, {played['replayed']} of them replayed, {played['failed']} failed",
            f"time: {seconds}",
            "",
            f"{folder}/",
            *(f"  {name:<15} {what}" for name, what in inside),
        ]
    )


_CONTENTS = {
    "curve.png": "the curve",
    "summary.json": "these numbers",
    "config.yaml": "the configuration",
    "command.txt": "the exact verl command",
    "metrics.jsonl": "verl's metrics, a step a line",
    "checkpoints": "the trained model",
    "traces": "every rollout, a JSON object a line",
    "model": "the model that training began with",
}


def draw_curve(curve: Curve, greedy: Mapping[int, Mean], file: Path, title: str) -> None:
    """Draw evals with their standard errors and the training rewards, as PNG; whole or not at all."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(
        list(curve.training), list(curve.training.values()), color="0.75", linewidth=1, label="training, mean of a step"
    )
    series: tuple[tuple[Mapping[int, Mean], str, str, str], ...] = (
        (greedy, "held-out, greedy", "tab:orange", "s"),
        (curve.evals, "held-out, temperature 1", "tab:blue", "o"),
    )
    for means, label, color, marker in series:
        if means:
            axes.errorbar(
                list(means),
                [mean.mean for mean in means.values()],
                yerr=[mean.stderr for mean in means.values()],
                label=f"{label} (± standard error, n = {max(mean.n for mean in means.values())})",
                color=color,
                marker=marker,
                capsize=4,
                linewidth=2,
            )
            for step, mean in means.items():
                above = all(mean.mean >= other[step].mean for other, *_ in series if step in other)
                place: dict[str, Any] = (
                    {"xytext": (0, 10), "va": "bottom"} if above else {"xytext": (0, -10), "va": "top"}
                )
                text = f"{mean.mean:.2f}"
                axes.annotate(text, (step, mean.mean), textcoords="offset points", ha="center", color=color, **place)
    axes.set(xlabel="training step", ylabel="reward", title=title, ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.legend(loc="lower right", frameon=False)
    fresh = file.with_name(f".{file.name}.writing")
    figure.savefig(fresh, format="png")
    os.replace(fresh, file)
