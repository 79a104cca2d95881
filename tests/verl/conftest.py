"""The verl tier: on the installed verl, with Qwen3's own tokenizer and chat template."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

# Warnings are errors here, but not what verl, Ray and torch warn of while they are imported.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import verl.experimental.agent_loop  # noqa: F401
    from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def qwen3():
    """Qwen3's tokenizer; fetched on the first use, then found in .cache."""
    folder = ROOT / ".cache" / "qwen3-tokenizer"
    fetch = [sys.executable, str(ROOT / "scripts" / "fetch_qwen3_tokenizer.py"), str(folder)]
    subprocess.run(fetch, check=True, timeout=400)
    return AutoTokenizer.from_pretrained(folder)
