"""The verl tier: on the installed verl, with Qwen3's own tokenizer and chat template and a tiny model's."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

# Warnings are errors here, but not what verl, Ray and torch warn of while they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoTokenizer
    from verl.utils import hf_tokenizer

    from agent_env import load_bundle
    from agent_env.training.shared import Shared
    from agent_env.training.tiny.conversations import demonstrate, text_of
    from agent_env.training.tiny.tokenizer import blank_tokenizer, learn_tokenizer
    from support.servers import serving
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
def tiny(tmp_path_factory):
    """A tokenizer as the warm start learns one, from the inbox, and as verl loads it."""
    plays = demonstrate(load_bundle("inbox"), "train", times=1, error_rate=0.0, seed=0, progress=lambda *_: None)
    folder = tmp_path_factory.mktemp("tiny")
    learn_tokenizer([text_of(play, blank_tokenizer()) for play in plays]).save_pretrained(folder)
    return hf_tokenizer(folder)


@pytest.fixture(scope="session", params=["qwen3", "tiny"])
def tokenizer(request):
    """Each of the tokenizers in turn."""
    return request.getfixturevalue(request.param)


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
def play(tokenizer, written):
    """Play a task of the workshop: ``await play("one", "a reply", "another")``, in the train split."""

    async def play(task, *replies, **options):
        return await rollout(tokenizer, written, f"train-{task}", *replies, **options)

    return play
