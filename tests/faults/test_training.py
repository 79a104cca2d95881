"""Task servers that stop, and a worker of verl's that is killed, under `agent-env train`: real Ray, real verl.

Two runs at once, as a run's start is what takes the time, each with a task server of its own:

* ``waits`` may begin an episode three times. In step 1 its server is ended by SIGTERM and starts again 5 s later, in
  step 2 it is killed twice, and during the evaluation after step 3 it is gone until that is over.
* ``once`` may begin one, at a server that asks for a token. In step 2 that server stops in the middle of the episodes,
  and in step 4 the process that plays its rollouts is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from agent_env.training.traces import Trace, read_traces
from agent_env.training.verl.runfolder import RunFolder, read_metrics
from support.faults import Fault
from support.restarting import Restarting
from support.servers import client
from support.tiny_folder import tiny_folder
from support.waiting import within

pytestmark = pytest.mark.timeout(900)

BABBLE = Path(__file__).parents[1] / "verl" / "babble"
SLOW = """
import asyncio

from agent_env import Environment


class Babble(Environment):
    \"\"\"Pays for vowels, a second a turn, and says in a file what it does.\"\"\"

    def reset(self, task, seed):
        self.task = task.id
        say(f"reset {task.id}")

    async def score(self, reply):
        say(f"score {self.task}")
        await asyncio.sleep(1.0)
        letters = [letter for letter in reply.lower() if letter.isalpha()]
        return sum(letter in "aeiou" for letter in letters) / len(letters) if letters else 0.0


def say(what):
    with open(EVENTS, "a") as file:
        file.write(what + "\\n")
"""
STEPS, TASKS, ROLLOUTS = 4, 2, 2
PLAYED = TASKS * ROLLOUTS
GONE = 40.0
"""Seconds that rollouts of `waits` wait for a server, from their begin."""
LIMIT = 500.0
TOKEN_VAR, TOKEN = "AGENT_ENV_TEST_TOKEN", "a-word-that-nobody-guesses"


class Run:
    """A run, its server, and what the server's environments say that they do."""

    def __init__(self, home: Path, name: str, *options: str, token: bool = False) -> None:
        self.folder = RunFolder(home / "runs" / name)
        self.events = home / f"{name}.events"
        self.events.touch()
        shutil.copytree(BABBLE, home / f"{name}-bundle")
        (home / f"{name}-bundle" / "env.py").write_text(SLOW.replace("EVENTS", repr(str(self.events))))
        asks = ("--token-var", TOKEN_VAR) if token else ()
        self._home, self._name, self._options, self._asks = home, name, (*options, *asks), asks
        self.server: Restarting
        self.process: subprocess.Popen[str]
        self.code: int
        self.freed = 0.0
        self.said = self.complained = ""

    def __enter__(self) -> Run:
        self.server = Restarting(self._home / f"{self._name}-bundle", "--max-sessions", str(PLAYED), *self._asks)
        command = [sys.executable, "-m", "agent_env.cli.main", "train", self.server.url]
        command += ["--model", "model", "--run", self._name, "--steps", str(STEPS), *self._options]
        command += [f"data.train_batch_size={TASKS}", f"actor_rollout_ref.rollout.n={ROLLOUTS}"]
        command += ["actor_rollout_ref.actor.ppo_mini_batch_size=1", "trainer.val_before_train=false"]
        command += ["data.max_prompt_length=1024", "data.max_response_length=96", "trainer.test_freq=3"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=self._home, **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.said, self.complained = self.process.communicate(timeout=LIMIT)
        finally:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.wait(60)
            self.server.stop()
        self.code = self.process.returncode

    def until(self, what: str, seen: Callable[[], bool]) -> None:
        """Wait for something to be seen, as long as the run runs."""
        deadline = time.monotonic() + LIMIT
        while not seen():
            assert self.process.poll() is None, f"the run ended before {what}: {self.process.communicate()}"
            assert time.monotonic() < deadline, f"{what}: not seen"
            time.sleep(0.02)

    def until_playing(self, step: int, event: str = "score train") -> None:
        """Wait for a rollout of a training step to be in the middle of an episode."""
        self.until(f"step {step - 1}", lambda: step == 1 or step - 1 in self.metrics())
        before = self.happened(event)
        self.until(f"an episode of step {step}", lambda: self.happened(event) > before)

    def happened(self, event: str) -> int:
        return sum(line.startswith(event) for line in self.events.read_text().splitlines())

    def metrics(self) -> dict[int, dict[str, float]]:
        return {line["step"]: line["data"] for line in read_metrics(self.folder.metrics)}

    def log(self) -> str:
        return self.folder.log.read_text(errors="replace") if self.folder.log.exists() else ""

    def rollouts(self, step: int, split: str = "train") -> list[Trace]:
        return [one for one in read_traces(self.folder.traces) if (one.step, one.split) == (step, split)]


def _waits(run: Run) -> None:
    with run:
        run.until_playing(1)
        run.server.stop(signal.SIGTERM)
        time.sleep(5)
        run.server.start()
        for _ in range(2):
            run.until_playing(2)
            run.server.kill()
            run.server.start()
        run.until("the evaluation", lambda: run.happened("reset eval") > 0)
        run.server.kill()
        run.until("the end of the evaluation", lambda: "the evaluation after step 3 is missing" in run.log())
        run.server.start()


def _once(run: Run) -> None:
    with run:
        run.until_playing(2)
        run.server.stop(signal.SIGTERM)
        run.server.start()
        run.until_playing(4)
        family = psutil.Process(run.process.pid).children(recursive=True)
        (worker,) = [one for one in family if "AgentLoopWorker" in " ".join(one.cmdline())]
        worker.kill()
        run.freed = asyncio.run(_seconds_to_open_all(run.server))


async def _seconds_to_open_all(server: Restarting) -> float:
    """How long until others have every session that the server has."""
    begun = time.monotonic()
    url, headers = f"{server.url.replace('http', 'ws', 1)}/ws", {"Authorization": f"Bearer {TOKEN}"}
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as guests:
        for _ in range(PLAYED):
            guest = await guests.enter_async_context(client(url, additional_headers=headers))
            await guest.reset()
        return time.monotonic() - begun


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    home = tmp_path_factory.mktemp("training")
    tiny_folder(home / "model")
    waits = Run(home, "waits", "--reset-timeout", str(GONE))
    once = Run(home, "once", "--attempts", "1", token=True)
    os.environ[TOKEN_VAR] = TOKEN
    with ThreadPoolExecutor(2) as both:
        for ended in [both.submit(_waits, waits), both.submit(_once, once)]:
            ended.result()
    return {"waits": waits, "once": once}


def test_a_server_that_restarts_in_a_step(runs: dict[str, Run], fault: Fault) -> None:
    run = runs["waits"]
    played = run.rollouts(1)
    again = [one for one in played if one.attempts > 1]
    metrics = run.metrics()[1]
    assert metrics["training/rollout_failure/lost_sessions"] == 0
    assert [one.status for one in played] == ["ok"] * PLAYED
    assert again
    assert metrics["critic/score/mean"] == pytest.approx(sum(one.reward for one in played) / PLAYED, abs=1e-6)
    fault.fault = "server SIGTERM mid-step, restarted 5 s later, during `main_ppo`"
    fault.injected = f"SIGTERM in the middle of {PLAYED} episodes of step 1, a start 5 s later"
    fault.seen = f"{len(again)} of {PLAYED} rollouts played again, and all are in the step's mean reward"
    fault.lost = "nothing"


def test_a_server_that_is_killed_twice_in_a_step(runs: dict[str, Run], fault: Fault) -> None:
    run = runs["waits"]
    played = run.rollouts(2)
    assert run.metrics()[2]["training/rollout_failure/lost_sessions"] == 0
    assert [one.status for one in played] == ["ok"] * PLAYED
    most = max(one.attempts for one in played)
    assert most >= 2
    fault.fault = "server SIGKILL twice while sessions are open, during `main_ppo`"
    fault.injected = "SIGKILL in the middle of episodes of step 2, a start, and both again"
    fault.seen = f"all {PLAYED} rollouts scored, in up to {most} attempts"
    fault.lost = "nothing"


def test_a_server_that_is_gone_through_an_evaluation(runs: dict[str, Run], fault: Fault) -> None:
    run = runs["waits"]
    metrics = run.metrics()
    assert metrics[3]["validation/missing"] == 1
    assert {one.status for one in run.rollouts(3, "eval")} == {"failed"}
    assert sorted(metrics) == [1, 2, 3, 4]
    assert [one.status for one in run.rollouts(4)] == ["ok"] * PLAYED
    (reason,) = [line for line in run.log().splitlines() if "the evaluation after step 3 is missing" in line]
    assert "ServerUnreachable" in reason
    assert run.code == 1
    assert "agent-env: the evaluation after step 3 is missing; the log says why" in run.complained
    fault.fault = "server gone for longer than `reset_timeout` through a whole eval"
    fault.injected = f"SIGKILL as the evaluation began, no server for its {GONE:.0f} s"
    fault.seen = "the evaluation is logged as missing, with its reason; step 4 is trained; exit status 1"
    fault.lost = "that evaluation"


def test_an_episode_that_may_not_be_played_again(runs: dict[str, Run], fault: Fault) -> None:
    run = runs["once"]
    played = run.rollouts(2)
    failed = [one for one in played if one.status == "failed"]
    assert failed
    assert all("SessionLost" in error for one in failed for error in one.errors)
    metrics = run.metrics()
    assert metrics[2]["episode/count"] >= 1
    assert 3 in metrics
    assert metrics[3]["training/rollout_failure/lost_sessions"] == 0
    refilled = len(played) - PLAYED
    files = [path for path in run.folder.path.rglob("*") if path.is_file()]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()], "the token is in a file of the run"
    fault.fault = "`attempts: 1` and a stop mid-episode"
    fault.injected = "SIGTERM and a start in the middle of episodes of step 2, with `--attempts 1`"
    fault.seen = f"{len(failed)} rollouts raised RolloutFailed, {refilled} more were played for them; step 3 is whole"
    fault.lost = f"{len(failed)} episodes, of which none counts as 0"


def test_a_process_that_plays_rollouts_is_killed(runs: dict[str, Run], fault: Fault) -> None:
    run = runs["once"]
    assert run.code == 1
    assert "agent loop worker 0 of 1 has died" in run.complained
    assert run.freed < within(10)
    fault.fault = "Ray worker (agent loop) killed"
    fault.injected = f"SIGKILL of verl's AgentLoopWorker in the middle of {PLAYED} episodes of step 4"
    fault.seen = f"the run ends and says so, exit status 1; all sessions free after {run.freed:.1f} s"
    fault.lost = "the steps since the last checkpoint, which the same command plays again"
