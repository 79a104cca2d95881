"""What `make train` does around its parts: a finished run is reported, a stopped one keeps what it has, bad input."""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_env.training.report import Curve, Mean, Rollouts, summary_of, write_summary

SCRIPT = Path(__file__).parents[3] / "scripts" / "train_gridsim.py"


def script():
    spec = importlib.util.spec_from_file_location("train_gridsim", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(folder, *arguments):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)


def test_a_finished_run_is_reported_and_left_as_it_is(tmp_path):
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    curve = Curve({0: Mean(0.2, 0.01, 200), 40: Mean(0.6, 0.01, 200)}, {}, Rollouts(1680, 0, 0))
    write_summary(summary_of(curve, {0: Mean(0.4, 0.01, 200)}, {"train": 150.0}, seed=7), run / "summary.json")
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    told = train(tmp_path, "--run", "old", "--seed", "7")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("the run old is finished; another RUN, or removing runs/old, trains anew\n")
    assert "GridSim, seed 7" in told.stdout
    assert "0.200 ± 0.010   0.600 ± 0.010" in told.stdout
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before


@pytest.mark.parametrize("arguments", [("--run", "../elsewhere"), ("--seed", "-1")])
def test_bad_input(tmp_path, arguments):
    told = train(tmp_path, *arguments)
    assert told.returncode == 2
    assert told.stderr == "make train: the seed is a number from 0 up, and the run a plain name\n"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_says_so_and_leaves_no_half_model(tmp_path):
    running = subprocess.Popen(
        [sys.executable, "-u", str(SCRIPT), "--run", "stopped"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "making a model that can play gridsim, from its demonstrator\n"
    time.sleep(0.5)
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert "make train: stopped; the same command goes on with runs/stopped" in errors
    run = tmp_path / "runs" / "stopped"
    assert [path.name for path in run.iterdir()] == [".seconds.json"]
    assert json.loads((run / ".seconds.json").read_text())["warm_start"] > 0


def test_seconds_add_up_over_starts(tmp_path):
    file = tmp_path / "run" / ".seconds.json"
    stopwatch = script().Stopwatch
    with stopwatch(file).part("train"):
        time.sleep(0.02)
    first = json.loads(file.read_text())["train"]
    again = stopwatch(file)
    with pytest.raises(KeyboardInterrupt), again.part("train"):
        raise KeyboardInterrupt
    assert again.seconds["train"] >= first >= 0.02
    assert json.loads(file.read_text()) == again.seconds


def test_the_seed_of_a_model(tmp_path):
    seed_of = script()._seed_of
    assert seed_of(tmp_path) is None
    (tmp_path / "warm_start.json").write_text('{"seed": 5}')
    assert seed_of(tmp_path) == 5
