"""verl's own vLLM rollout on the CPU, with weight sync: five steps of GRPO through our loop on each bundle."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_env.training.traces import Trace, read_traces

STEPS = 5
LIMIT = 900.0
"""Seconds a run may take: a failed weight sync would wait for ever."""
BLOCK = 32
"""Tokens of a block of vLLM's prefix cache (profile cpu_vllm)."""
SHARED_MEMORY = Path("/dev/shm")

OVERRIDES = (
    "data.train_batch_size=2",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "data.val_max_samples=2",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "+data.apply_chat_template_kwargs.enable_thinking=false",
    "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=6",
    # 150,000 logits a token: no more of them at a time than one rollout may have.
    "data.max_prompt_length=1024",
    "data.max_response_length=768",
    "actor_rollout_ref.rollout.max_model_len=1792",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1792",
    # Whatever the rewards are, the weights move in each step, and their sync has something to bring over.
    "actor_rollout_ref.actor.entropy_coeff=0.01",
)


class Run:
    """A run of ``agent-env train``, watched for the shared memory it uses."""

    def __init__(self, bundle: str, model: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "agent_env.cli.main", "train", bundle, "--model", str(model), "--run", bundle]
        command += ["--profile", "cpu_vllm", "--steps", str(STEPS), *OVERRIDES]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        self.folder = folder / "runs" / bundle
        self.segments: set[str] = set()
        self.process = subprocess.Popen(command, cwd=folder, env=environment, text=True, stderr=subprocess.STDOUT)

    def wait(self) -> int:
        """Its exit status; it is ended once `LIMIT` is over."""
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(60)
                pytest.fail(f"not done after {LIMIT:.0f} s; the end of its log:\n{self.log()[-3000:]}")
            self.segments |= segments_of(self.process.pid)
            time.sleep(0.3)
        return self.process.returncode

    def log(self) -> str:
        log = self.folder / "log.txt"
        return log.read_text(errors="replace") if log.is_file() else ""

    def metrics(self) -> list[dict[str, Any]]:
        """Of the training steps, in order."""
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return [line["data"] for line in lines if "actor/grad_norm" in line["data"]]

    def traces(self) -> list[Trace]:
        return [trace for trace in read_traces(self.folder / "traces") if trace.split == "train"]


def segments_of(pid: int) -> set[str]:
    """The segments of POSIX shared memory, made as Python makes them, that a process and its descendants hold."""
    found: set[str] = set()
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return found
    for process in processes:
        try:
            maps = Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:
            continue
        found |= set(re.findall(rf"{SHARED_MEMORY}/(psm_\w+)", maps))
    return found


@pytest.mark.timeout(LIMIT + 120, func_only=True)
@pytest.mark.parametrize("bundle", ["inbox", "gridsim"])
def test_five_steps(bundle: str, policy: Path, tmp_path: Path, report: Callable[[str], None]) -> None:
    run = Run(bundle, policy, tmp_path)
    assert run.wait() == 0, run.log()[-3000:]

    # Weights went through shared memory, and none of it is left. (The tier's plugin looks for processes.)
    assert run.segments
    assert [name for name in run.segments if (SHARED_MEMORY / name).exists()] == []

    metrics = run.metrics()
    assert len(metrics) == STEPS
    assert [step["training/rollout_probs_diff_valid"] for step in metrics] == [1] * STEPS
    differences = [step["training/rollout_probs_diff_max"] for step in metrics]
    assert max(differences) < 1e-5
    # The difference is worth something: weights that moved, and probabilities that are not all as good as zero.
    assert all(step["actor/grad_norm"] > 1e-3 for step in metrics)
    assert all(step["actor/entropy"] < 3.0 for step in metrics)

    traces = run.traces()
    assert len(traces) == STEPS * 4
    assert {trace.status for trace in traces} == {"ok"}
    pairs = [pair for trace in traces for pair in follow_ups(trace)]
    assert len(pairs) >= STEPS
    assert [cached for before, cached in pairs if cached < before // BLOCK * BLOCK] == []

    seconds = sum(step["timing_s/step"] for step in metrics) / STEPS
    known, cached = (sum(pair[place] for pair in pairs) for place in (0, 1))
    report(
        f"{bundle}: {STEPS} steps of {seconds:.1f} s, {len(traces)} rollouts; probabilities of actor and rollout at "
        f"most {max(differences):.1e} apart; {len(pairs)} later generations with {cached} cached tokens, "
        f"of {known} in the prompts before them"
    )


def follow_ups(trace: Trace) -> list[tuple[int, int]]:
    """Of each generation but a rollout's first: the tokens of the prompt before it, and those it found cached."""
    generations = trace.info["generations"]
    return [(before["prompt_tokens"], after["cached_tokens"]) for before, after in itertools.pairwise(generations)]
