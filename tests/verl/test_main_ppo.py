"""`agent-env train` from end to end: verl's own `main_ppo` on Ray, our server, loop and CPU backend, one seed.

Two runs of the bundle that `agent-env new` writes, both at once, as a run's start is what takes the time:

* ``straight`` is ended by SIGTERM while Ray comes up; started again it has its five steps.
* ``killed`` is ended by SIGKILL in the middle of its fourth step, after a checkpoint at the second; started again, and
  asked for more steps, it goes on and is ended by SIGINT in the middle of the seventh. What it played is what
  ``straight`` played.
"""

from __future__ import annotations

import shlex
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_env import load_bundle
from agent_env.new import write_bundle
from agent_env.training.tiny.warm_start import warm_start
from agent_env.training.verl.launch import dry_run
from agent_env.training.verl.plan import TrainOptions
from agent_env.training.verl.processes import GRACE
from support.training_runs import OVERRIDES, ROLLOUTS, TASKS, Run, coming_up
from support.waiting import within

pytestmark = pytest.mark.timeout(900)

STEPS = 5
"""Of a run."""
MORE = 9
"""Steps that are asked for when the killed run is taken up; it is stopped in the seventh."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs `straight` and `killed`."""
    home = tmp_path_factory.mktemp("training")
    write_bundle(home / "game")
    warm_start(load_bundle(home / "game"), home / "model", steps=80)
    straight, killed = Run(home, "straight"), Run(home, "killed")

    def play_straight():
        straight.start(STEPS, until=coming_up(straight), number=signal.SIGTERM)
        straight.start(STEPS)

    def play_killed():
        killed.start(STEPS, look=killed.in_step(1), until=killed.in_step(4), number=signal.SIGKILL)
        killed.start(MORE, look=killed.in_step(5), until=killed.in_step(7), number=signal.SIGINT)

    with ThreadPoolExecutor(2) as both:
        for ended in [both.submit(play_straight), both.submit(play_killed)]:
            ended.result()
    return straight, killed


def test_a_signal_while_it_comes_up_ends_everything_and_the_same_command_begins_again(runs):
    stopped, again = runs[0].starts
    assert_it_stopped(stopped, signal.SIGTERM, "straight")
    assert again.code == 0
    assert any(line.startswith("starting;") for line in again.said)


def test_five_steps(runs):
    straight = runs[0]
    folder = straight.folder
    said = straight.starts[1].said
    assert [line.split("  ")[0] for line in said if line.startswith("step ")] == [f"step {n}/5" for n in range(1, 6)]
    assert sorted(path.name for path in folder.checkpoints.glob("global_step_*"))[:3] == [
        "global_step_2",
        "global_step_4",
        "global_step_5",
    ]
    assert (folder.checkpoints / "global_step_5" / "actor" / "huggingface" / "model.safetensors").is_file()
    data = straight.metrics()
    for step in range(1, STEPS + 1):
        assert data[step]["training/rollout_failure/lost_sessions"] == 0
        assert data[step]["training/rollout_probs_diff_max"] < 1e-5
        rewards = [played[0][1] for (at, _, _), played in straight.played().items() if at == step]
        assert len(rewards) == TASKS * ROLLOUTS
        assert data[step]["critic/score/mean"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-6)
    assert any(data[step]["actor/grad_norm"] > 0 for step in range(1, STEPS + 1)), "nothing was learned from"


def test_more_steps_go_on_after_the_last(runs, monkeypatch):
    assert resumed_from(runs[0], monkeypatch) == "global_step_5"


def test_kill_9_in_the_middle_of_a_step(runs):
    killed, again = runs[1].starts
    assert killed.steps == [1, 2, 3], "the fourth step had ended: the signal came too late to tell"
    assert killed.code == -signal.SIGKILL
    assert {"raylet", "gcs_server"} <= killed.ended
    assert killed.left == []
    assert not killed.ray.exists()
    assert any(line.startswith("going on after step 2;") for line in again.said)
    assert [line.split("  ")[0] for line in again.said if line.startswith("step ")][:4] == [
        f"step {n}/9" for n in range(3, 7)
    ]


def test_what_is_played_again_after_a_kill_counts_once(runs):
    _, killed = runs
    times = {step: [] for step in range(1, MORE + 1)}
    for (step, _, _), played in killed.played().items():
        times[step].append(len(played))
    assert times[1] == times[2] == times[5] == times[6] == [1] * 4
    assert times[3] == [2] * 4
    assert {1, 2} >= set(times[4]) != {1}
    assert sorted(killed.metrics())[:6] == [1, 2, 3, 4, 5, 6]


def test_ctrl_c_in_the_middle_of_a_step(runs, monkeypatch):
    killed = runs[1]
    stopped = killed.starts[1]
    # On a busy machine the signal may come in the next step's middle.
    assert stopped.steps in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7])
    assert_it_stopped(stopped, signal.SIGINT, "killed")
    # It does have the eighth step's if the signal came as late as that step's end.
    last = 8 if (killed.folder.checkpoints / "global_step_8").exists() else 6
    assert resumed_from(killed, monkeypatch) == f"global_step_{last}"


def assert_it_stopped(stopped, number, name):
    """A start that was asked to end by a signal did, with all its processes and Ray's folder, and says how to go on."""
    assert stopped.code == 128 + number
    assert stopped.complained[-1] == f"agent-env: stopped; the same command goes on with runs/{name}"
    assert {"raylet", "gcs_server"} <= stopped.ended
    assert stopped.left == []
    assert not stopped.ray.exists()
    assert stopped.seconds < within(GRACE + 10)


def resumed_from(run, monkeypatch):
    """The checkpoint that the same command, asked for `MORE` steps, would go on from now."""
    monkeypatch.chdir(run.folder.path.parents[1])
    options = TrainOptions("game", "model", run.folder.path, seed=7, steps=MORE, overrides=OVERRIDES)
    settings = shlex.split(dry_run(options).splitlines()[-1])
    (path,) = (value for value in settings if value.startswith("trainer.resume_from_path="))
    return Path(path).name


def test_a_seed_repeats_a_run_also_one_that_was_taken_up(runs):
    straight, killed = ({key: set(played) for key, played in run.played().items() if key[0] <= STEPS} for run in runs)
    assert killed == straight
    assert all(len(played) == 1 for played in straight.values()), "what was played again was played otherwise"
    outcomes = [played for rollouts in straight.values() for played in rollouts]
    assert len({reward for _, reward, _ in outcomes}) > 1, "the rewards are all the same: this shows nothing"
    assert {seed for seed, _, _ in outcomes} == {index for _, index, _ in straight}  # number-N has seed N
    for step in range(1, STEPS + 1):
        mine, other = (run.metrics()[step] for run in runs)
        same = ("critic/score/mean", "actor/grad_norm", "actor/entropy", "training/rollout_probs_diff_max")
        assert {key: mine[key] for key in same} == {key: other[key] for key in same}
