"""Runs of `agent-env train` that a test starts, stops, kills and starts again: real Ray, real verl, our server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from agent_env.training.traces import Trace, read_traces
from agent_env.training.verl.runfolder import RunFolder, read_metrics
from support.leftovers import is_alive
from support.waiting import within

TASKS, ROLLOUTS = 2, 2
"""Of a step; of a task in a step."""
LIMIT = 400.0
"""Seconds to a step of a start, and to its end."""
GONE_WITHIN = 2.0
"""Seconds from the command's end to that of the last of its processes, on a machine that is idle (`within`)."""
MARK = "AGENT_ENV_TEST_START"

OVERRIDES = (
    f"data.train_batch_size={TASKS}",
    f"actor_rollout_ref.rollout.n={ROLLOUTS}",
    "data.max_prompt_length=256",
    "data.max_response_length=128",
    "trainer.save_freq=2",
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "actor_rollout_ref.rollout.max_num_seqs=1",
)


@dataclass
class Start:
    """One start of a run's command, that has ended.

    Attributes:
        code: exit status.
        said: standard output, by line. complained: standard error, by line.
        ended: the names of the processes it had when a test looked, before a signal was sent to it.
        left: those of them, and of all that carry its mark, that outlived the command by more than `GONE_WITHIN`.
        ray: Ray's folder then, if it had one.
        steps: whose metrics the run had when the signal was sent.
        seconds: from the signal until no process was left.
    """

    code: int
    said: list[str]
    complained: list[str]
    ended: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    ray: Path | None = None
    seconds: float = 0.0


class Run:
    """A run by its name, and the starts of it."""

    def __init__(self, home: Path, name: str) -> None:
        self.folder = RunFolder(home / "runs" / name)
        self.starts: list[Start] = []
        self._home, self._name = home, name

    def command(self, steps: int) -> list[str]:
        agent_env = [sys.executable, "-m", "agent_env.cli.main"]
        options = ["--model", "model", "--run", self._name, "--seed", "7", "--steps", str(steps)]
        return [*agent_env, "train", "game", *options, *OVERRIDES]

    def start(
        self,
        steps: int,
        *,
        until: Callable[[], object] | None = None,
        number: int = signal.SIGTERM,
        look: Callable[[], object] | None = None,
    ) -> None:
        """Start the command, wait for its end, or send it the signal `number` once `until()` is true.

        Its processes are looked at once `look()` is true, or just before the signal: a look may take as long as a step,
        so a signal that has to come within one needs it earlier.
        """
        mark = f"{self._name}-{len(self.starts)}-{os.getpid()}"
        out, err = (self._home / f"{mark}.{kind}" for kind in ("out", "err"))
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                self.command(steps), cwd=self._home, env=os.environ | {MARK: mark}, stdout=stdout, stderr=stderr
            )
            signalled = {}
            try:
                if until is not None:
                    deadline = time.monotonic() + LIMIT
                    _wait(look or until, process, deadline)
                    before, seen = _processes(process.pid)
                    _wait(until, process, deadline)
                    signalled = seen | _signalled(process, number, mark, self.folder, before)
                code = process.wait(LIMIT)
            finally:
                process.kill()
                process.wait()
        self.starts.append(Start(code, out.read_text().splitlines(), err.read_text().splitlines(), **signalled))

    def rollouts(self) -> list[Trace]:
        """Of all starts; there is no folder of them before the first ended."""
        return list(read_traces(self.folder.traces)) if self.folder.traces.is_dir() else []

    def in_step(self, number: int) -> Callable[[], bool]:
        """Whether a rollout of a step has ended, and that step has not."""
        return lambda: any(trace.step == number for trace in self.rollouts())

    def played(self) -> dict[tuple[int, int, str], list[tuple[object, ...]]]:
        """What each rollout was, by step, task and number in its group: twice where it was played again."""
        found = defaultdict(list)
        for trace in self.rollouts():
            key = (trace.step, trace.index, trace.info["session_id"])
            found[key].append((trace.seed, trace.reward, json.dumps(trace.messages)))
        return dict(found)

    def metrics(self) -> dict[int, dict[str, float]]:
        lines = read_metrics(self.folder.metrics)
        found = {line["step"]: line["data"] for line in lines}
        assert len(found) == len(lines), "a step has two lines of metrics"
        return found


def _wait(until: Callable[[], object], process: subprocess.Popen[bytes], deadline: float) -> None:
    """Until that holds."""
    while not until():
        assert process.poll() is None, f"the command ended before it was to, with {process.poll()}"
        assert time.monotonic() < deadline, "the command did not come as far as it was to"
        time.sleep(0.01)


def _signalled(
    process: subprocess.Popen[bytes], number: int, mark: str, folder: RunFolder, before: list[psutil.Process]
) -> dict[str, object]:
    """Send a signal, wait for the end, and look what is left."""
    sent = time.monotonic()
    process.send_signal(number)
    steps = sorted({line["step"] for file in folder.path.glob("metrics*.jsonl") for line in read_metrics(file)})
    process.wait(LIMIT)
    limit = time.monotonic() + within(GONE_WITHIN)
    while (left := [child for child in before if is_alive(child)] + _marked(mark)) and time.monotonic() < limit:
        time.sleep(0.05)
    seconds = time.monotonic() - sent
    return {"left": [str(child) for child in left], "steps": steps, "seconds": seconds}


def _processes(pid: int) -> tuple[list[psutil.Process], dict[str, object]]:
    """The processes that a start has, their names, and the folder they have for Ray, if it runs by now."""
    found, names, ray = [], set(), None
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended while it was looked at
            if is_alive(child):
                names.add(child.name())
                if child.name() == "raylet":
                    ray = Path(child.environ()["RAY_TMPDIR"])
                found.append(child)
    return found, {"ended": names, "ray": ray}


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and is_alive(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def coming_up(run: Run) -> Callable[[], bool]:
    """Whether Ray's own processes run, and the first of verl's workers."""
    return lambda: run.folder.log.exists() and "(TaskRunnerV1 pid=" in run.folder.log.read_text()
