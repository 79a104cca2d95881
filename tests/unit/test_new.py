"""The bundle that an author starts from."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from agent_env import Episode, InputError, load_bundle
from agent_env.demonstrator import play
from agent_env.hosting.local import LocalHandle
from agent_env.new import write_bundle

FILES = ["README.md", "bundle.toml", "demonstrator.py", "env.py", "tasks.py"]


def mean_reward(bundle, split, error_rate):
    async def one(task):
        episode = Episode(bundle, task, LocalHandle(bundle))
        return (await play(episode, bundle.demonstrator, random.Random(task.seed), error_rate)).ended.reward

    rewards = [asyncio.run(one(task)) for task in bundle.tasks(split)]
    return sum(rewards) / len(rewards)


def test_it_loads_under_its_own_name_and_can_be_learned(tmp_path):
    assert write_bundle(tmp_path / "my-game") == FILES
    assert sorted(os.listdir(tmp_path / "my-game")) == FILES
    assert os.listdir(tmp_path) == ["my-game"]
    bundle = load_bundle(tmp_path / "my-game")
    assert bundle.name == "my-game"
    assert (tmp_path / "my-game" / "README.md").read_text().startswith("# my-game\n")
    assert not any("scaffold" in (tmp_path / "my-game" / name).read_text() for name in FILES)
    assert [len(tasks) for tasks in bundle.splits.values()] == [200, 50]
    assert not {task.seed for task in bundle.tasks("train")} & {task.seed for task in bundle.tasks("eval")}
    assert mean_reward(bundle, "eval", 0.0) == 1.0
    assert 0.5 < mean_reward(bundle, "eval", 1.0) < 0.98


def test_it_fits_on_a_screen(tmp_path):
    write_bundle(tmp_path / "game")
    code = [line for line in (tmp_path / "game" / "env.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 30


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "game").mkdir()
    assert write_bundle(tmp_path / "game") == FILES


def test_nothing_is_overwritten(tmp_path):
    write_bundle(tmp_path / "game")
    (tmp_path / "game" / "env.py").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("game", "file"):
        with pytest.raises(InputError, match="is there already"):
            write_bundle(tmp_path / name)
    assert (tmp_path / "game" / "env.py").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "game"]


@pytest.mark.parametrize(("path", "message"), [("2 games", "cannot name a bundle"), ("file/game", "cannot be written")])
def test_where_no_bundle_can_be(tmp_path, path, message):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=message):
        write_bundle(tmp_path / path)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("path", [".", "../here", "inner/.."])
def test_a_relative_path_names_the_bundle(tmp_path, monkeypatch, path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_bundle(Path(path))
    assert sorted(os.listdir()) == FILES
    assert load_bundle(tmp_path / "here").name == "here"
