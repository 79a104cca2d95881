"""The command: what it says and writes, and what it refuses with exit status 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.bundles import TOML, jsonl, task, write_bundle

DEMONSTRATOR = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    yield Call("add", {"amount": 5})
    yield Reply("done")
"""


def warm_start(*arguments):
    command = [str(Path(sys.executable).with_name("agent-env")), "warm-start", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def test_it_makes_a_model(tmp_path):
    tasks = jsonl(*(task(f"t{number}") for number in range(4)))
    bundle = write_bundle(tmp_path / "counter", {"demonstrator.py": DEMONSTRATOR, "tasks/train.jsonl": tasks})
    run = warm_start(bundle, tmp_path / "model", "--steps", 1, "--seed", 3, "--error-rate", 0)
    assert run.returncode == 0, run.stderr
    assert "tokens to " + str(tmp_path / "model") in run.stdout
    assert "it learned from 16 plays with a mean reward of 1.000" in run.stdout
    assert run.stderr.splitlines() == ["demonstrating: 16 of 16", "learning: 1 of 1"]
    modes = {file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()}
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert modes == {(tmp_path / "counter" / "env.py").stat().st_mode & 0o777}


def test_it_makes_a_model_of_the_step_layout_with_the_bundles_options(tmp_path):
    files = {
        "demonstrator.py": DEMONSTRATOR,
        "bundle.toml": TOML + '[steps]\nmemory = "none"\nmax_steps = 1\n',
        "step_prompt.md": "{{ memory }}{{ observation }} {{ steps_left }}",
    }
    bundle = write_bundle(tmp_path / "counter", files)
    run = warm_start(bundle, tmp_path / "model", "--steps", 1, "--context", "steps")
    assert run.returncode == 0, run.stderr
    record = json.loads((tmp_path / "model" / "warm_start.json").read_text())
    assert (record["context"], record["plays"], record["samples"]) == ("steps", 32, 32)  # of two steps, one


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({}, ("--context", "chat"), "--context: expected conversation or steps, got 'chat'"),
        ({}, ("--step", "memory=none"), "--step memory: is of the step layout, and this is a conversation"),
        ({}, ("--context", "steps", "--step", "memory=all"), "memory: there is no memory 'all'"),
        ({"bundle.toml": TOML + '[steps]\nmemory = "all"\n'}, ("--context", "steps"), "there is no memory 'all'"),
        ({}, (), "bundle 'counter' has no demonstrator.py"),
        ({"demonstrator.py": DEMONSTRATOR}, ("--split", "test"), "bundle 'counter' has no split 'test'"),
        ({"bundle.toml": "name = "}, (), "bundle.toml:1: not TOML"),
    ],
)
def test_what_it_refuses(tmp_path, files, arguments, message):
    run = warm_start(write_bundle(tmp_path / "counter", files), tmp_path / "model", *arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert not (tmp_path / "model").exists()


def test_everything_wrong_with_a_layouts_options_is_said_at_once(tmp_path):
    wrong = ("--context", "steps", "--step", "memory=foo", "--step", "max_stepz=3", "--step", "max_steps=0")
    run = warm_start(write_bundle(tmp_path / "counter"), tmp_path / "model", *wrong)
    assert run.returncode == 2
    assert "max_stepz=3: is no option" in run.stderr
    assert "memory: there is no memory 'foo'" in run.stderr
    assert "max_steps: expected 1 or more, got 0" in run.stderr
