"""Runs the playing process of a check, and gathers what it said, what it left, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_env.checking.play import Event, Loaded, Plan, Played
from agent_env.checking.remains import MARK, WHERE, marked
from agent_env.errors import Problem

START_SECONDS = 60.0
"""For Python and this package; a busy machine takes its time."""

SLACK_SECONDS = 15.0
"""Beyond a deadline of the bundle, which stops what can be stopped."""

TICK = 1.0
"""Seconds between two words on what is being waited for."""

_EXIT_SECONDS = 3.0
"""For a process that is through, and then for those that it started, to be gone."""


@dataclass(frozen=True)
class Waiting:
    """How far a playing process is: told with each thing it does, and each second in which nothing comes.

    Args:
        doing: what it does.
        most: seconds that this may take.
        since: seconds that it has taken so far.
        episodes: played so far.
    """

    doing: str = "starting"
    most: float = START_SECONDS
    since: float = 0.0
    episodes: int = 0


Said = Callable[[Waiting], None]


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


def run_child(folder: Path, hash_seed: int, crowd: int, said: Said, scratch: Path | None = None) -> Run:
    """Play the bundle in `folder` in a process of its own, with this PYTHONHASHSEED and fresh working folders.

    Args:
        crowd: how many episodes to play at once, after each was played alone; 0 for none.
        said: told how far the process is.
        scratch: folder to make the working folders in; the system's for temporary files if None.
    """
    run = Run()
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="agent-env-check-", dir=scratch) as own:
        work, temporary, log = (Path(own) / name for name in ("work", "tmp", "log"))
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
                if run.died.endswith(_SILENT):
                    run.died += _place(process, log, folder)
                else:
                    patience = _EXIT_SECONDS
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


def _listen(reader: int, run: Run, said: Said) -> str:
    """Take in every line; returns "" or why the process has to be ended."""
    lines, at = _Lines(reader), Waiting()
    while True:
        said(at)
        begun = time.monotonic()
        while not lines.come(TICK):
            at = replace(at, since=time.monotonic() - begun)
            if at.since >= at.most:
                return f"{at.doing}: after {at.most:g} s {_SILENT}"
            said(at)
        line = lines.next()
        if line is None:
            return f"{at.doing}: {_ENDED}"
        ((kind, value),) = json.loads(line).items()
        match kind:
            case "problems":
                run.problems = [Problem(*fields) for fields in value]
            case "loaded":
                run.loaded = Loaded(*value)
            case "doing":
                at = replace(at, doing=value[0], most=value[1] + SLACK_SECONDS)
            case "played":
                plan, played = _read(value)
                run.played[plan] = played
            case "crowd":
                run.crowd.append(_read(value))
            case "left":
                run.left = value
            case "end":
                return ""
        at = replace(at, since=0.0, episodes=len(run.played) + len(run.crowd))


class _Lines:
    """Lines read from a descriptor as they come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._ended = False

    def come(self, seconds: float) -> bool:
        """Whether there is a line, or the end, within so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer and not self._ended:
            if not select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
            chunk = os.read(self._descriptor, 1 << 16)
            self._buffer += chunk
            self._ended = not chunk
        return True

    def next(self) -> bytes | None:
        """The line that has come; None at the end."""
        if b"\n" not in self._buffer:
            return None
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


def _place(process: subprocess.Popen[bytes], log: Path, folder: Path) -> str:
    """In words, the line of the bundle that a silent process is at; "" if it does not say within a second."""
    told = log.stat().st_size
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(WHERE)
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        time.sleep(0.05)
        text = log.read_bytes()[told:].decode(errors="replace")
        if match := re.search(rf'File "{re.escape(str(folder.resolve()))}/(.+)", line (\d+) in .*\n', text):
            return f", at {match[1]}:{match[2]}"
    return ""


def _read(value: dict[str, Any]) -> tuple[Plan, Played]:
    events = [Event(*event) for event in value["events"]]
    rest = {key: value[key] for key in ("reward", "scores", "error", "line", "unseen")}
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
