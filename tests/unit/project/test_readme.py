"""What the README shows works: its bundle passes the check, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def agent_env(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_env.cli.main", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The files that the README shows, each in a block headed by its path."""
    for name, content in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return tmp_path / "kitchen"


def test_the_bundle_has_25_lines_and_trains(bundle: Path) -> None:
    files = [file for file in bundle.rglob("*") if file.is_file()]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 25
    checked = agent_env("check", "kitchen", cwd=bundle.parent)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "nothing found" in checked.stdout


def test_every_target_it_names_is_made() -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"train", "test"} <= named <= targets


def test_every_command_and_option_it_names_exists() -> None:
    shown = re.findall(r"^agent-env ([a-z-]+)(.*)$", README, re.MULTILINE)
    assert {command for command, _ in shown} == {"new", "warm-start", "train", "serve"}
    for command, arguments in shown:
        known = agent_env(command, "--help", cwd=ROOT).stdout
        assert [option for option in re.findall(r"--[a-z-]+", arguments) if option not in known] == []


def test_every_profile_it_names_exists() -> None:
    profiles = {file.stem for file in (ROOT / "src/agent_env/training/verl/profiles").glob("*.yaml")}
    assert set(re.findall(r"--profile (\w+)", README)) <= profiles
