"""`agent-env eval`: a model that was warm-started plays a served bundle through the loop, in this process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_env import load_bundle
from agent_env.errors import InputError
from agent_env.training.tiny.conversations import demonstrate
from agent_env.training.tiny.warm_start import warm_start
from agent_env.training.verl.cpu.asked import evaluation_config
from agent_env.training.verl.cpu.evaluate import evaluate, rows_of
from agent_env.training.verl.writer import LoopOptions
from support.bundles import ENV, TOML, jsonl, task, write_bundle

DEMONSTRATOR = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    yield Call("add", {"amount": 5})
    yield Reply("done")
"""
EVAL = [task(f"e{number}") for number in range(6)]


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """A bundle whose demonstrator always counts to five, with an eval task that cannot be played; and a model of it."""
    folder = tmp_path_factory.mktemp("counter")
    broken = ENV.replace("self.value = ", 'assert "broken" not in task.env, "no counter today"\n        self.value = ')
    files = {
        "bundle.toml": TOML.replace('["train"]', '["train", "eval"]'),
        "env.py": broken,
        "demonstrator.py": DEMONSTRATOR,
        "tasks/train.jsonl": jsonl(*(task(f"t{number}") for number in range(10))),
        "tasks/eval.jsonl": jsonl(*EVAL, task("never", env={"broken": True})),
    }
    bundle = load_bundle(write_bundle(folder / "bundle", files))
    warm_start(bundle, folder / "model", steps=60, error_rate=0.0)
    return bundle, folder / "model"


@pytest.fixture(scope="module")
def rows(counter):
    bundle, model = counter
    with rows_of(str(bundle.path), evaluation_config(str(model))) as data:
        yield data


def test_every_task_that_can_be_played_is_scored(counter, rows):
    told = []
    found = evaluate(
        evaluation_config(str(counter[1])), rows, "eval", temperature=0.0, progress=lambda *step: told.append(step)
    )
    assert found.rewards == (1.0,) * 6
    assert {episode.rows for episode in found.played} == {1}
    assert all(0.0 < episode.surprise < 1.0 for episode in found.played)  # a sharp model, in no doubt of a token
    assert (found.mean.mean, found.mean.stderr, found.mean.n) == (1.0, 0.0, 6)
    (failure,) = found.failures
    assert failure.startswith("never: ")
    assert "no counter today" in failure
    assert told == [("playing", done, 7) for done in range(8)]


def test_the_rows_show_the_tools_as_the_warm_start_did(counter, rows):
    from pyarrow.parquet import read_table

    (play,) = demonstrate(
        counter[0], "train", times=1, error_rate=0.0, seed=0, progress=lambda what, done, total: None
    )[:1]
    row = read_table(rows / "train.parquet").to_pylist()[0]
    assert row["extra_info"]["tools"] == json.dumps(list(play.tools), ensure_ascii=False)


def test_sampling_repeats_with_its_seed(counter, rows):
    def rewards(seed):
        config = evaluation_config(str(counter[1]), seed=seed)
        return evaluate(config, rows, "train", temperature=3.0, n=8).rewards

    assert rewards(1) == rewards(1)
    assert len(rewards(2)) == 8


def test_the_step_layout_is_evaluated_with_its_own_loop(counter):
    bundle, model = counter
    config = evaluation_config(str(model))
    loop = LoopOptions(context="steps", step_options={"max_steps": 3})
    with rows_of(str(bundle.path), config, loop=loop) as data:
        found = evaluate(config, data, "eval", temperature=0.0)
    assert len(found.rewards) == 6
    assert set(found.rewards) <= {0.0, 1.0}
    assert "no counter today" in found.failures[0]


def test_what_cannot_be_evaluated(counter, rows, tmp_path):
    _, model = counter
    with pytest.raises(InputError, match=r"the server has no split 'test'; its splits are all, eval, train"):
        evaluate(evaluation_config(str(model)), rows, "test", temperature=0.0)
    with pytest.raises(InputError, match="is set by agent-env"):
        evaluation_config(str(model), overrides=["actor_rollout_ref.model.path=other"])
    with pytest.raises(InputError, match="holds no tokenizer"), rows_of("gridsim", evaluation_config(str(tmp_path))):
        pass


def test_the_command(counter):
    bundle, model = counter
    command = [str(Path(sys.executable).with_name("agent-env")), "eval", str(bundle.path), str(model), "--n", "4"]
    run = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=110, check=True)
    assert json.loads(run.stdout) == {
        "mean": 1.0,
        "stderr": 0.0,
        "n": 4,
        "failed": 0,
        "split": "eval",
        "temperature": 0.0,
        "seed": 1,
    }
    wrong = ["--split", "nope", "--context", "stpes"]
    bad = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=110, check=False)
    assert bad.returncode == 2
    assert "--split: " in bad.stderr
    assert "--context: " in bad.stderr
