"""What `agent-env train` finds only once the tasks were read, before verl is started for them."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.tiny_folder import tiny_folder

BABBLE = Path(__file__).parent / "babble"


@pytest.mark.timeout(300)
def test_fewer_tasks_than_a_batch_are_refused_with_what_to_set(tmp_path):
    model = tiny_folder(tmp_path / "model")
    command = [sys.executable, "-m", "agent_env.cli.main", "train", str(BABBLE), "--model", str(model)]
    command += ["--run", "it", "data.train_batch_size=5", "actor_rollout_ref.actor.ppo_mini_batch_size=5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "split 'train' has fewer tasks (4) than data.train_batch_size (5)" in done.stderr
    assert "data.train_batch_size=4" in done.stderr
    assert not (tmp_path / "runs" / "it").exists()
