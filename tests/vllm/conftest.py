"""The model that is trained on vLLM, and the lines that a run of this tier ends with."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support import qwen3_policy

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / ".cache" / "qwen3-tokenizer"


_lines = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_lines] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[_lines]:
        terminalreporter.line(line)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Shows a line at the end of the run."""
    return request.config.stash[_lines].append


@pytest.fixture(scope="session")
def policy() -> Path:
    """A tiny Qwen3 with Qwen3's tokenizer that calls the tools of inbox and GridSim.

    Made once, and again when what it is made by changes.
    """
    made_by = Path(qwen3_policy.__file__).read_bytes()
    folder = ROOT / ".cache" / f"vllm-policy-{hashlib.sha256(made_by).hexdigest()[:12]}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "policy"
            loss = qwen3_policy.make_policy(TOKENIZER, made, ["inbox", "gridsim"], steps=80)
            assert loss < 1.5, f"the model has learned too little to call tools: {loss:.2f} nats a token"
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(made, folder)
    return folder
