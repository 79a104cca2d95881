"""A run's folder: what it is a run of, where it stopped, and its metrics across stops.

``runs/NAME`` holds

* ``config.yaml``: what was asked for, and of which tasks the run is; a folder takes up only its own run again,
  once that has a checkpoint.
* ``command.txt``: the verl command of the last start. ``log.txt``: all that verl printed, of every start.
* ``data/``: rows and loop configuration, from the writer. ``traces/``: a record of each rollout.
* ``metrics.jsonl``: a line for each step, ``{"step": …, "data": {…}}``, across all starts.
* ``checkpoints/global_step_N/``: verl's; ``actor/huggingface`` in it is a model that transformers loads.
* ``validation/N.jsonl``: a line for each rollout of the evaluation after step N.
* ``model/``: the model that the run begins with, where one was made for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.files import write_atomically

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_PART = re.compile(r"metrics\.from(\d+)\.jsonl")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run; nothing is made before `make`."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def validation(self) -> Path:
        return self.path / "validation"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def command(self) -> Path:
        return self.path / "command.txt"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    def check(self, asked: Mapping[str, Any]) -> list[Problem]:
        """What keeps this folder from being, or going on being, the run that is asked for."""
        where, fix = str(self.path), "choose another --run, or remove that folder"
        if not NAME.fullmatch(self.path.name):
            fix = "use letters, digits, . _ and -, 200 of them at most"
            return [Problem("--run", f"{self.path.name!r} is no name for a run", fix)]
        if not self.path.exists():
            return []
        if not self.path.is_dir():
            return [Problem(where, "is a file", fix)]
        if not self.config.exists():
            return [Problem(where, "holds something else than a run", fix)] if any(self._strangers()) else []
        began = self.read_config()
        if not isinstance(began, dict):
            return [Problem(str(self.config), "is not readable as a run's configuration", fix)]
        if self.last_checkpoint() is None:
            return []  # nothing of it would go on: it begins again, as whatever is asked for now
        differing = [name for name, value in asked.items() if began.get(name) != value]
        return [
            Problem(where, f"belongs to a run with {name} = {began.get(name)!r}, not {asked[name]!r}", fix)
            for name in differing
        ]

    def _strangers(self) -> Iterator[Path]:
        return (entry for entry in self.path.iterdir() if entry != self.model and not entry.name.startswith("."))

    def read_config(self) -> Any:
        """What `write_config` wrote; None if there is nothing or it cannot be read."""
        import yaml

        try:
            return yaml.safe_load(self.config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            return None

    def write_config(self, config: Mapping[str, Any]) -> None:
        import yaml

        write_atomically(self.config, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make the folder, and keep other launchers out of it meanwhile.

        Raises:
            InputError: another process has it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(Problem(str(self.path), "this run is going on in another process")) from None
            yield
        finally:
            os.close(handle)

    # --- where the run stopped --------------------------------------------------------------------------------

    def last_checkpoint(self) -> Path | None:
        """The newest checkpoint that is whole; one being written when the run was killed is not."""
        found = sorted(self.checkpoints.glob("global_step_*"), key=step_of, reverse=True)
        return next((path for path in found if _is_whole(path)), None)

    def metrics_part(self, start: int) -> Path:
        """Where verl writes the metrics of a start after step `start`: verl empties the file it begins to write."""
        return self.metrics if start == 0 else self.path / f"metrics.from{start}.jsonl"

    def recover_metrics(self, upto: int) -> None:
        """Gather all starts' lines in ``metrics.jsonl``, those up to step `upto`; what came later is played again.

        Of a step that is there twice (an evaluation that a start repeated) the later values count.
        """
        starts = [path for path in self.path.iterdir() if _PART.fullmatch(path.name)]
        parts = sorted(starts, key=lambda path: int(path.name.split("from")[1].split(".")[0]))
        steps: dict[int, dict[str, Any]] = {}
        for part in [self.metrics, *parts]:
            for line in read_metrics(part):
                if line["step"] <= upto:
                    steps.setdefault(line["step"], {}).update(line["data"])
        if self.metrics.exists() or steps:
            lines = [json.dumps({"step": step, "data": steps[step]}) for step in sorted(steps)]
            write_atomically(self.metrics, "".join(f"{line}\n" for line in lines))
        for part in parts:
            part.unlink()

    def evaluated(self, step: int) -> bool:
        """Whether the metrics hold an evaluation after `step`."""
        return any(line["step"] == step and is_evaluation(line["data"]) for line in read_metrics(self.metrics))


def step_of(checkpoint: Path) -> int:
    """The step of a checkpoint's folder; -1 if its name has none."""
    number = checkpoint.name.removeprefix("global_step_")
    return int(number) if number.isdecimal() else -1


def _is_whole(checkpoint: Path) -> bool:
    """verl writes ``data.pt`` last; torch's files are zip archives, whose directory is at their end."""
    files = [checkpoint / "data.pt", *checkpoint.glob("*/*.pt")]
    models = list(checkpoint.glob("actor/model_world_size_*.pt"))
    return step_of(checkpoint) >= 0 and bool(models) and all(zipfile.is_zipfile(file) for file in files)


def is_evaluation(data: Mapping[str, Any]) -> bool:
    return any(key.startswith("val-core/") for key in data)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file, whole ones; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            content = json.loads(line)
            if isinstance(content, dict) and isinstance(content.get("step"), int) and "data" in content:
                lines.append(content)
    return lines
