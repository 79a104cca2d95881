"""The verl tier: on the installed verl, with Qwen3's own tokenizer and chat template."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

# Warnings are errors here, but not what verl, Ray and torch warn of while they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoTokenizer

    from agent_env.training.shared import Shared
    from support.serving import serving
    from support.verl_tier import WORKSHOP, Written, rollout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def qwen3():
    """Qwen3's tokenizer; fetched on the first use, then found in .cache."""
    folder = ROOT / ".cache" / "qwen3-tokenizer"
    fetch = [sys.executable, str(ROOT / "scripts" / "fetch_qwen3_tokenizer.py"), str(folder)]
    subprocess.run(fetch, check=True, timeout=400)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def workshop():
    """The tests' own bundle, served for all of them."""
    with serving(WORKSHOP, "--max-sessions", "16") as server:
        yield server


@pytest.fixture(scope="session")
def written(workshop, tmp_path_factory):
    """The workshop's rows and the loop's configuration, as the writer writes them."""
    return Written(Shared(workshop.url), tmp_path_factory.mktemp("written") / "data")


@pytest.fixture
def play(qwen3, written):
    """Play a task of the workshop: ``await play("one", "a reply", "another")``, in the train split."""

    async def play(task, *replies, **options):
        return await rollout(qwen3, written, f"train-{task}", *replies, **options)

    return play
