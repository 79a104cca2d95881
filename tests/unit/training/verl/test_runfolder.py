"""A run's folder: whose it is, where it stopped, its metrics across starts."""

import json
import subprocess
import sys

import pytest
import torch

from agent_env.training.verl.runfolder import RunFolder, read_metrics

ASKED = {"source": "gridsim", "seed": 1, "overrides": []}


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "runs" / "one")


def lines(*steps, **data):
    return "".join(json.dumps({"step": step, "data": {"x": step, **data}}) + "\n" for step in steps)


PARTS = ("actor/model_world_size_1_rank_0.pt", "actor/optim_world_size_1_rank_0.pt", "data.pt")


def checkpoint(folder, step, *, parts=PARTS):
    path = folder.checkpoints / f"global_step_{step}"
    (path / "actor").mkdir(parents=True)
    for part in parts:
        torch.save({"a": torch.zeros(100)}, path / part)
    return path


@pytest.mark.parametrize("name", [".hidden", "a b", "..", "~", "-rf"])
def test_a_name_that_is_no_folders_is_refused(tmp_path, name):
    assert [problem.where for problem in RunFolder(tmp_path / "runs" / name).check(ASKED)] == ["--run"]


def test_a_folder_takes_up_its_own_run_and_no_other(folder):
    assert folder.check(ASKED) == []
    with folder.made():
        folder.write_config({**ASKED, "steps": 40, "tasks": {"train": "abc"}})
    assert folder.check(ASKED) == []
    changed = {**ASKED, "seed": 2, "overrides": ["a=1"]}
    assert folder.check(changed) == []  # without a checkpoint it would begin again
    checkpoint(folder, 5)
    wrong = folder.check(changed)
    assert [problem.what.split("with ")[1].split(" =")[0] for problem in wrong] == ["seed", "overrides"]


def test_a_folder_of_something_else_is_left_alone(folder):
    folder.path.mkdir(parents=True)
    assert folder.check(ASKED) == []  # an empty one will do
    (folder.path / "thesis.tex").write_text("")
    assert "something else" in folder.check(ASKED)[0].what
    (folder.path / "config.yaml").write_text("- [")
    assert "not readable" in folder.check(ASKED)[0].what


def test_a_second_launcher_is_kept_out(folder):
    with folder.made():
        code = (
            "from pathlib import Path\nfrom agent_env.training.verl.runfolder import RunFolder\n"
            f"with RunFolder(Path({str(folder.path)!r})).made(): pass"
        )
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert "going on in another process" in second.stderr
    with folder.made():
        pass


def test_the_last_checkpoint_is_the_newest_whole_one(folder):
    assert folder.last_checkpoint() is None
    first, second = checkpoint(folder, 5), checkpoint(folder, 20)
    assert folder.last_checkpoint() == second
    torn = second / "data.pt"
    torn.write_bytes(torn.read_bytes()[:-40])  # killed while the last file was being written
    assert folder.last_checkpoint() == first
    torn.unlink()
    assert folder.last_checkpoint() == first
    checkpoint(folder, 100, parts=["data.pt"])
    (folder.checkpoints / "global_step_x").mkdir()
    assert folder.last_checkpoint() == first
    third = checkpoint(folder, 10)
    assert folder.last_checkpoint() == third


def test_metrics_go_on_across_starts(folder):
    folder.path.mkdir(parents=True)
    assert folder.metrics_part(0) == folder.metrics
    folder.metrics.write_text(lines(0, 1, 2, 3, 4) + '{"step": 5, "da')  # killed in step 5, the checkpoint is of 3
    folder.recover_metrics(upto=3)
    assert [line["step"] for line in read_metrics(folder.metrics)] == [0, 1, 2, 3]
    part = folder.metrics_part(3)
    part.write_text(lines(3, **{"val-core/a/reward/mean@1": 0.5}) + lines(4, 5))
    assert not folder.evaluated(3)
    folder.recover_metrics(upto=5)
    assert [line["step"] for line in read_metrics(folder.metrics)] == [0, 1, 2, 3, 4, 5]
    assert folder.evaluated(3)
    assert not part.exists()
    folder.recover_metrics(upto=-1)
    assert read_metrics(folder.metrics) == []


def test_a_line_that_the_launcher_had_appended_already_counts_once(folder):
    folder.path.mkdir(parents=True)
    folder.metrics.write_text(lines(1, 2, 3))
    folder.metrics_part(2).write_text(lines(3, 4))
    folder.recover_metrics(upto=9)
    assert [line["step"] for line in read_metrics(folder.metrics)] == [1, 2, 3, 4]
