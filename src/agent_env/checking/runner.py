"""Runs the playing process of a check, and gathers what it said, what it left, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_env.checking.play import Event, Loaded, Plan, Played
from agent_env.checking.remains import MARK, marked
from agent_env.errors import Problem

START_SECONDS = 120.0
"""To import, load the bundle and begin; a busy machine takes its time."""

SLACK_SECONDS = 15.0
"""Beyond a deadline of the bundle, which stops what can be stopped."""

_EXIT_SECONDS = 3.0
"""For a process that is through, and then for those that it started, to be gone."""


@dataclass
class Run:
    """What one playing process did.

    Args:
        problems: that kept the bundle from being loaded.
        loaded: what the bundle holds; None if it was not loaded.
        died: why it did not get to its end, "" if it did.
        left: threads, open files and processes that grew in number with the episodes, by kind.
        outlived: command lines of processes that it left running when it ended; they are ended here.
        files: that it left, by folder.
    """

    problems: list[Problem] = field(default_factory=list)
    loaded: Loaded | None = None
    played: dict[Plan, Played] = field(default_factory=dict)
    crowd: list[tuple[Plan, Played]] = field(default_factory=list)
    left: dict[str, list[str]] = field(default_factory=dict)
    died: str = ""
    outlived: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)


def run_child(folder: Path, hash_seed: int, crowd: int, said: Callable[[str], None]) -> Run:
    """Play the bundle in `folder` in a process of its own, with this PYTHONHASHSEED and fresh working folders.

    Args:
        crowd: how many episodes to play at once, after each was played alone; 0 for none.
        said: called with the kind of each line that the process writes.
    """
    run = Run()
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="agent-env-check-") as scratch:
        work, temporary, log = (Path(scratch) / name for name in ("work", "tmp", "log"))
        work.mkdir()
        temporary.mkdir()
        before = _files(folder)
        reader, writer = os.pipe()
        with log.open("wb") as output, os.fdopen(reader, "rb", buffering=0):
            command = [sys.executable, "-m", "agent_env.checking.child", str(folder), str(writer), str(crowd)]
            process = subprocess.Popen(
                [*command, str(os.getpid())],
                cwd=work,
                env={**os.environ, "TMPDIR": str(temporary), "PYTHONHASHSEED": str(hash_seed), MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[writer],
                start_new_session=True,
            )
            patience = 0.0
            try:
                os.close(writer)
                run.died = _listen(reader, run, said)
                patience = 0.0 if run.died.endswith(_SILENT) else _EXIT_SECONDS
            finally:
                run.outlived = _end(process, mark, patience)
        if run.died.endswith(_ENDED):
            run.died += f" with status {process.returncode}: {_tail(log)}"
        run.files = {
            "the working folder": sorted(_files(work)),
            "the temporary folder": sorted(_files(temporary)),
            "the bundle's folder": sorted(_files(folder) - before),
        }
    return run


_ENDED = "the process ended"
_SILENT = "there was still no answer"


def _listen(reader: int, run: Run, said: Callable[[str], None]) -> str:
    """Take in every line; returns "" or why the process has to be ended."""
    lines = _Lines(reader)
    doing, patience = "starting", START_SECONDS
    while True:
        try:
            line = lines.next(patience)
        except TimeoutError:
            return f"{doing}: after {patience:g} s {_SILENT}"
        if line is None:
            return f"{doing}: {_ENDED}"
        ((kind, value),) = json.loads(line).items()
        said(kind)
        match kind:
            case "problems":
                run.problems = [Problem(*fields) for fields in value]
            case "loaded":
                run.loaded = Loaded(*value)
            case "doing":
                doing, patience = value[0], value[1] + SLACK_SECONDS
            case "played":
                plan, played = _read(value)
                run.played[plan] = played
            case "crowd":
                run.crowd.append(_read(value))
            case "left":
                run.left = value
            case "end":
                return ""


class _Lines:
    """Lines read from a descriptor, each within a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def next(self, seconds: float) -> bytes | None:
        """The next line; None at the end. Raises TimeoutError."""
        while b"\n" not in self._buffer:
            if not select.select([self._descriptor], [], [], seconds)[0]:
                raise TimeoutError
            chunk = os.read(self._descriptor, 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


def _read(value: dict[str, Any]) -> tuple[Plan, Played]:
    events = [Event(*event) for event in value["events"]]
    rest = {key: value[key] for key in ("reward", "scores", "error", "line")}
    return Plan(*value["plan"]), Played(events, **rest)


def _end(process: subprocess.Popen[bytes], mark: str, patience: float) -> list[str]:
    """Wait for the process, or end it, and end what it left running; returns the command lines of the latter."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience)
    process.kill()
    process.wait()
    deadline = time.monotonic() + _EXIT_SECONDS
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return list(left.values())


def _files(folder: Path) -> set[str]:
    found = (file for file in folder.rglob("*") if "__pycache__" not in file.parts and not file.is_dir())
    return {str(file.relative_to(folder)) for file in found}


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
