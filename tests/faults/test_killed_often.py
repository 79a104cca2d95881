"""A trainer that is killed at 20 random moments and taken up each time, beside one that never was."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_env import load_bundle
from agent_env.new import write_bundle
from agent_env.training.tiny.warm_start import warm_start
from support.faults import Fault
from support.training_runs import Run
from support.waiting import within

KILLS, SEED = 20, 5
START = 25.0
"""Seconds that a start takes to its first step, on a machine that is idle."""


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have passed since now."""
    limit = time.monotonic() + seconds
    return lambda: time.monotonic() > limit


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_a_trainer_that_is_killed_often(tmp_path: Path, fault: Fault) -> None:
    write_bundle(tmp_path / "game")
    warm_start(load_bundle(tmp_path / "game"), tmp_path / "model", steps=80)
    killed, straight = Run(tmp_path, "killed"), Run(tmp_path, "straight")
    moments = random.Random(SEED)
    for _ in range(KILLS):
        moment = within(moments.uniform(0.2, 1.6) * START)
        killed.start(1000, until=after(moment), number=signal.SIGKILL)
        assert (killed.starts[-1].code, killed.starts[-1].left) == (-signal.SIGKILL, [])
    last = killed.folder.last_checkpoint()
    assert last is not None, "no start came to its second step: this shows nothing"
    steps = int(last.name.rpartition("_")[2]) + 2
    killed.start(steps)
    straight.start(steps)
    assert [killed.starts[-1].code, straight.starts[-1].code] == [0, 0]

    # Every step has a line of metrics, and the same one: data, weights, optimizer and random state all went on.
    mine, other = killed.metrics(), straight.metrics()
    assert sorted(mine) == sorted(other) == list(range(1, steps + 1))
    same = ("critic/score/mean", "actor/grad_norm", "actor/entropy", "actor/lr")
    for step in mine:
        assert {key: mine[step][key] for key in same} == {key: other[step][key] for key in same}
    played, expected = killed.played(), straight.played()
    assert {key: set(times) for key, times in played.items() if key[0] <= steps} == {
        key: set(times) for key, times in expected.items()
    }
    again = sum(len(times) - 1 for times in played.values())
    assert again > 0, "no kill came in the middle of a step: this shows nothing"
    fault.fault = "trainer killed at a random moment 20 times, resumed each time"
    fault.injected = (
        f"SIGKILL of `agent-env train` {KILLS} times, {0.2 * START:.0f} to {1.6 * START:.0f} s after its start"
    )
    fault.seen = (
        f"{steps} steps, each with the metrics, rollouts and rewards of a run that was never killed; {again} rollouts "
        "were played twice and count once; no process left"
    )
    fault.lost = "what came after the last checkpoint, played again"
