"""Runs a training: serves the bundle, writes the rows, runs verl, shows how it goes, and leaves nothing behind.

verl runs as its own unchanged command in a process of its own (`Plan.by_hand` prints it). A run that was stopped, or
killed, goes on from its last whole checkpoint when it is started again under its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agent_env.errors import AgentEnvError, InputError, Problem
from agent_env.files import write_atomically
from agent_env.stopping import stopping
from agent_env.training.model_layout import mismatch
from agent_env.training.shared import Shared
from agent_env.training.tasks import Progress as Tell
from agent_env.training.verl.plan import Plan, TrainOptions, checked
from agent_env.training.verl.processes import Processes
from agent_env.training.verl.progress import Progress
from agent_env.training.verl.runfolder import RunFolder, step_of
from agent_env.training.verl.serving import serve_bundle
from agent_env.training.verl.source import check_splits
from agent_env.training.verl.writer import write

ERROR = re.compile(r"(\(.*\) )?(\[rank\d+\]: +)?([\w.]*(Error|Exception|Exit)(\(\w+\))?|agent_env[\w.]*|agent-env): ")
"""The line of a traceback, perhaps of a Ray worker's, that says what happened; or what our plugin says."""
LOOK = 5.0
"""Seconds between two looks at the shared memory that the run's processes hold."""
POLL = 0.2
"""Seconds between two looks at the metrics and at whether verl still runs."""


class RunFailed(AgentEnvError):
    """verl, or the task server, ended before the run did; the message says where to look."""


@dataclass(frozen=True)
class Outcome:
    """A run that has its steps.

    Attributes:
        folder: of the run.
        steps: it has.
        checkpoint: its last; ``actor/huggingface`` in it is a model that transformers loads.
        seconds: this start took, all told.
        missing: the steps after which this start's evaluation is missing, for all of its rollouts failed.
    """

    folder: Path
    steps: int
    checkpoint: Path | None
    seconds: float
    missing: tuple[int, ...] = ()


def dry_run(options: TrainOptions) -> str:
    """The commands that `train` would run, for a shell; nothing is started or made. Raises what `checked` raises."""
    plan = checked(options)
    checkpoint = plan.folder.last_checkpoint() if plan.folder.path.is_dir() else None
    return plan.by_hand(_next_start(plan, checkpoint))


def train(options: TrainOptions, *, say: Callable[[str], None] = print, tell: Tell = lambda *_: None) -> Outcome:
    """Run a training to its end, from where it stopped if it began before.

    Must be called in the main thread: SIGINT, SIGTERM and SIGHUP end the run and every process of it, and raise
    `agent_env.stopping.Stopped`.

    Args:
        say: told a line for each step, evaluation and stage.
        tell: told of the progress of reading and writing tasks.

    Raises:
        InputError: what is asked for cannot be done, all problems at once; nothing is left of a folder that is new.
        SessionError: the task server cannot be read.
        RunFailed: verl or the server ended early.
    """
    begun = time.monotonic()
    plan = checked(options)
    options = plan.options  # with the layout that the recipe or the model brings
    if warning := mismatch(options.model, options.layout):
        say(f"warning: {warning}")
    with stopping(), _made(plan.folder), Processes() as processes, processes.ray_folder() as ray:
        if not plan.folder.config.exists():
            plan.folder.write_config(options.identity())
        checkpoint = plan.folder.last_checkpoint()
        done = step_of(checkpoint) if checkpoint is not None else 0
        if done >= options.steps:
            say(f"this run has its {done} steps already: nothing to do; a larger --steps goes on from there")
            return Outcome(plan.folder.path, done, checkpoint, time.monotonic() - begun)
        url = options.source
        if not options.is_url:
            output, sessions = plan.folder.path / "server.txt", plan.sessions(256)
            url = serve_bundle(processes, url, output, max_sessions=sessions, token=options.token)
        rows = _write_rows(plan, url, tell)
        say(f"tasks: {rows[options.train_split]} to train on, {rows[options.eval_split]} to evaluate on, at {url}")
        plan.folder.recover_metrics(upto=done if done else -1)
        start = _next_start(plan, checkpoint)
        write_atomically(plan.folder.command, f"{start.shell()}\n")
        metrics = plan.folder.metrics_part(done)
        progress = Progress(metrics, plan.folder.metrics, options.steps, say)
        begin = f"going on after step {done}" if done else "starting"
        say(f"{begin}; verl takes about a minute to come up (all it prints is in {plan.folder.log})")
        with plan.folder.log.open("a", encoding="utf-8") as log:
            log.write(f"\n=== agent-env: {begin} at {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
            log.flush()
            environment = start.environment() | {"RAY_TMPDIR": str(ray)}
            verl = processes.start(start.command(), environment=environment, output=log, errors=subprocess.STDOUT)
            _follow(verl, processes, progress)
        if verl.returncode or progress.step != options.steps:
            raise RunFailed(_why(plan.folder, verl.returncode, progress.step, options.steps))
    plan.folder.recover_metrics(upto=options.steps)
    seconds = time.monotonic() - begun
    missing = tuple(progress.missing)
    return Outcome(plan.folder.path, options.steps, plan.folder.last_checkpoint(), seconds, missing)


def _next_start(plan: Plan, checkpoint: Path | None) -> Any:
    """The settings that begin the run, or take it up at a checkpoint."""
    step = step_of(checkpoint) if checkpoint is not None else 0
    trainer = plan.config.trainer
    evaluate = bool(trainer.val_before_train)
    if checkpoint is not None:
        # The evaluation after a checkpoint's step comes after the checkpoint: it may be missing.
        due = trainer.test_freq > 0 and step % trainer.test_freq == 0
        evaluate = due and not plan.folder.evaluated(step)
    return plan.started(checkpoint, evaluate=evaluate, metrics=plan.folder.metrics_part(step))


@contextlib.contextmanager
def _made(folder: RunFolder) -> Iterator[None]:
    """The run's folder, made if it is new, and unmade if verl was never started in it."""
    new = not folder.path.exists()
    with folder.made():
        try:
            yield
        finally:
            if new and not folder.command.exists():
                shutil.rmtree(folder.path, ignore_errors=True)


def _write_rows(plan: Plan, url: str, tell: Tell) -> Mapping[str, int]:
    """Write the rows, and the run's configuration with a fingerprint of them; returns the tasks by split.

    Raises:
        InputError: the run began with other tasks; or the server has none of a split.
    """
    folder, options = plan.folder, plan.options
    fresh = folder.path / "data.next"
    shutil.rmtree(fresh, ignore_errors=True)
    shared = Shared(url, options.token.var, options.token.file, reset_timeout=options.reset_timeout)
    try:
        rows = write(shared, fresh, loop=plan.loop(), prompts=plan.prompts(), progress=tell).rows
        check_splits(options.source, options.splits, rows)
        _check_batch(plan, rows[options.train_split])
        tasks = {split: _fingerprint(fresh / f"{split}.parquet") for split in (options.train_split, options.eval_split)}
        began = folder.read_config() or {}
        if began.get("tasks") not in (None, tasks) and folder.last_checkpoint() is not None:
            what = "the tasks are no longer those this run began with: its data order would mean something else"
            raise InputError(Problem(str(folder.path), what, "choose another --run"))
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(folder.data, ignore_errors=True)
    fresh.rename(folder.data)
    shared = Shared(url, options.token.var, options.token.file, reset_timeout=options.reset_timeout)
    return rows


def _check_batch(plan: Plan, tasks: int) -> None:
    """Raises InputError if the tasks do not fill a batch: verl would have no step to make of them."""
    batch = int(plan.config.data.train_batch_size)
    if tasks < batch:
        what = f"split {plan.options.train_split!r} has fewer tasks ({tasks}) than data.train_batch_size ({batch})"
        fix = f"add data.train_batch_size={tasks} and a divisor of it for actor_rollout_ref.actor.ppo_mini_batch_size"
        raise InputError(Problem("--train-split", what, fix))


def _fingerprint(parquet: Path) -> str:
    from pyarrow.parquet import read_table

    rows = json.dumps(read_table(parquet).to_pylist(), sort_keys=True)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    found = {}
    for package in ("agentenv-rl", "verl", "torch", "transformers", "ray", "vllm"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _follow(verl: subprocess.Popen[Any], processes: Processes, progress: Progress) -> None:
    """Show how it goes until verl ends. Raises RunFailed if the task server ends before."""
    next_look = time.monotonic()
    while verl.poll() is None:
        progress.update()
        if time.monotonic() >= next_look:
            processes.note_shared_memory()
            next_look = time.monotonic() + LOOK
        for other in processes.children:
            if other is not verl and other.poll() is not None:
                raise RunFailed(f"the task server ended with {other.returncode} while verl was running")
        time.sleep(POLL)
    progress.update()


def _why(folder: RunFolder, code: int, step: int | None, steps: int) -> str:
    """What to say of a run that ended early: its last error as verl logged it."""
    ended = f"verl ended with {code}" if code else "verl ended"
    when = "before the first step" if not step else f"after step {step} of {steps}"
    text = re.sub(r"\x1b\[[0-9;]*m", "", folder.log.read_text(encoding="utf-8", errors="replace"))
    this_start = text.rsplit("=== agent-env:", 1)[-1].splitlines()
    errors = [line.strip() for line in this_start if ERROR.match(line)]
    lines = [f"{ended} {when}; all it printed is in {folder.log}", *dict.fromkeys(errors[-3:])]
    return "\n".join(lines)
