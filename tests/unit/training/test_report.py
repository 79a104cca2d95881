"""A run's numbers from its traces, by hand; the file, the screen and the picture made of them."""

import json

import pytest

from agent_env.errors import InputError
from agent_env.training.report import (
    Curve,
    Mean,
    Rollouts,
    draw_curve,
    read_curve,
    screen_of,
    summary_of,
    write_summary,
)
from agent_env.training.traces import Trace


def trace(split, step, index, reward, attempts=1, session=0):
    status, info = "failed" if reward is None else "ok", {"session_id": str(session)}
    return Trace("gridsim", split, index, f"day-{index}", status, attempts, reward=reward, step=step, info=info)


def test_a_mean_and_its_standard_error():
    # Deviations -0.3, -0.1, 0.1, 0.3: variance 0.2/3, standard error sqrt(0.2/3)/2.
    assert Mean.of([0.1, 0.3, 0.5, 0.7]) == Mean(pytest.approx(0.4), pytest.approx(0.1290994), 4)
    assert Mean.of([0.5]) == Mean(0.5, 0.0, 1)
    assert str(Mean(0.31249, 0.0164, 200)) == "0.312 ± 0.016"
    with pytest.raises(InputError, match="no rollout was scored"):
        Mean.of([])


def test_the_curve_of_a_run():
    curve = read_curve(
        [
            trace("eval", 0, 0, 0.2),
            trace("eval", 0, 1, 0.4),
            trace("eval", 0, 2, None, attempts=3),
            trace("train", 1, 0, 0.1),
            trace("train", 1, 0, 0.3, attempts=2, session=1),
            trace("train", 2, 5, None, attempts=3),
            trace("eval", 2, 0, 0.5),
        ]
    )
    assert curve.evals == {0: Mean(pytest.approx(0.3), pytest.approx(0.1), 2), 2: Mean(0.5, 0.0, 1)}
    assert curve.training == {1: pytest.approx(0.2)}
    assert curve.rollouts == Rollouts(played=5, replayed=1, failed=2)


def test_what_a_resumed_run_played_again_counts_once():
    curve = read_curve(
        [
            trace("eval", 20, 0, 0.2),
            trace("eval", 20, 1, 0.2),
            trace("train", 21, 4, 0.9),
            trace("train", 21, 5, None),
            trace("eval", 20, 0, 0.6),
            trace("train", 21, 4, 0.5),
            trace("train", 21, 5, 0.7),
        ]
    )
    assert curve.evals == {20: Mean(pytest.approx(0.4), pytest.approx(0.2), 2)}
    assert curve.training == {21: pytest.approx(0.6)}
    assert curve.rollouts == Rollouts(played=4, replayed=0, failed=0)


CURVE = Curve(
    {0: Mean(0.3, 0.01, 200), 20: Mean(0.5, 0.02, 200), 40: Mean(0.6, 0.01, 200)},
    {1: 0.3, 2: 0.35, 3: 0.34},
    Rollouts(1880, 1, 0),
)
GREEDY = {0: Mean(0.55, 0.01, 200), 40: Mean(0.7, 0.01, 200)}


def test_the_summary_on_disk(tmp_path):
    file = tmp_path / "summary.json"
    write_summary(summary_of(CURVE, GREEDY, {"install": 61.04, "train": 150.0}, seed=3), file)
    assert json.loads(file.read_text()) == {
        "seed": 3,
        "eval": {
            "0": {"mean": 0.3, "stderr": 0.01, "n": 200},
            "20": {"mean": 0.5, "stderr": 0.02, "n": 200},
            "40": {"mean": 0.6, "stderr": 0.01, "n": 200},
        },
        "greedy": {"0": {"mean": 0.55, "stderr": 0.01, "n": 200}, "40": {"mean": 0.7, "stderr": 0.01, "n": 200}},
        "rollouts": {"played": 1880, "replayed": 1, "failed": 0},
        "seconds": {"install": 61.0, "train": 150.0},
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_the_screen(tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "command.txt").touch()
    summary = summary_of(CURVE, GREEDY, {"warm_start": 61.2, "train": 150.0}, seed=3)
    assert screen_of(summary, tmp_path, "GridSim, seed 3") == (
        "GridSim, seed 3\n"
        "\n"
        "reward on 200 held-out tasks, mean ± standard error\n"
        "         step               0              20              40\n"
        "temperature 1   0.300 ± 0.010   0.500 ± 0.020   0.600 ± 0.010\n"
        "       greedy   0.550 ± 0.010                   0.700 ± 0.010\n"
        "\n"
        "rollouts: 1880 played, 1 of them replayed, 0 failed\n"
        "time: warm start 61 s, train 150 s\n"
        "\n"
        f"{tmp_path}/\n"
        "  command.txt     the exact verl command\n"
        "  traces          every rollout, a JSON object a line"
    )


def test_the_picture(tmp_path):
    file = tmp_path / "curve.png"
    draw_curve(CURVE, GREEDY, file, "GridSim, seed 3")
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 900  # 7.5 inches of 120 dots
    draw_curve(Curve({}, {}, Rollouts(0, 0, 0)), {}, file, "nothing yet")  # a run that has no eval can be drawn
    assert file.read_bytes() != data
    assert [entry.name for entry in tmp_path.iterdir()] == ["curve.png"]
