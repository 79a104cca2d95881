"""What is true of every file of the project."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

PLACES = re.compile(
    "|".join(
        (
            r"(?<!\w)/(?:wo" r"rk|root|home/\w+|Users/\w+)/",  # folders of one machine
            r"/tm" r"p/ref\b|/op" r"t/(?:pypi|wheels)",
            r"file:/" r"//|py" r"pi\.org|python" r"hosted|registry\.npm" r"js|download\.pytorch" r"\.org",  # registries
        )
    )
)


def tracked_files() -> list[Path]:
    """The project's own files: those git knows, or would be told of by ``git add``."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="ignore")


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in tracked_files()
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if PLACES.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("file", ["constraints-cpu.txt", "tests/vllm/requirements.txt"])
def test_every_package_is_pinned_to_a_release(file: str) -> None:
    lines = [line for line in text_of(ROOT / file).splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line)] == []


def test_the_verl_extra_leaves_the_trainers_pins_alone() -> None:
    extras = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    names = {re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower() for requirement in extras["verl"]}
    assert names == {"bm25s", "pyarrow", "rapidfuzz", "transformers"}


def test_what_a_bundle_adds_to_the_running_python_is_an_extra_of_its_name() -> None:
    extras = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    found = {}
    for file in (ROOT / "src" / "agent_env" / "bundles").glob("*/bundle.toml"):
        install = tomllib.loads(text_of(file)).get("install", {})
        if install and not install.get("venv"):
            found[file.parent.name] = set(install["packages"]) - set(extras.get(file.parent.name, []))
    assert found
    assert not any(found.values()), found


def test_every_link_between_the_documents_leads_somewhere() -> None:
    broken = []
    for file in tracked_files():
        if file.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)", text_of(file)):
            if not re.match(r"[a-z]+:", target) and not (file.parent / target).exists():
                broken.append(f"{file.relative_to(ROOT)}: {target}")
    assert broken == []
