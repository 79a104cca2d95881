"""The core stands alone: no trainer, no torch and no other server is installed or imported with it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ABSENT = ("torch", "verl", "ray", "openenv", "transformers", "pyarrow", "matplotlib", "psutil")

IMPORT_THE_CORE = f"""
import importlib, pkgutil, sys
import agent_env
absent = {ABSENT!r}
for name in absent:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{{name}} is installed")
needs_an_extra = (
    "agent_env.training.verl", "agent_env.training.tiny", "agent_env.bundles.", "agent_env.openenv.http_protocol"
)
for module in pkgutil.walk_packages(agent_env.__path__, "agent_env."):
    if not module.name.startswith(needs_an_extra):
        importlib.import_module(module.name)
"""


def run(*command: str | Path, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
    return result


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a fresh environment that holds the built wheel and what it declares, nothing else."""
    folder = tmp_path_factory.mktemp("core")
    pip = ("-m", "pip", "--disable-pip-version-check", "-q")
    run(sys.executable, *pip, "wheel", "--no-deps", "-w", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/python", *pip, "install", "--no-compile", "-c", ROOT / "constraints-cpu.txt", wheel)
    return folder / "venv/bin"


@pytest.mark.timeout(600)
def test_the_core_installs_and_imports_alone(installed: Path) -> None:
    run(installed / "python", "-I", "-c", IMPORT_THE_CORE)


@pytest.mark.timeout(600)
def test_the_command_works_without_extras(installed: Path) -> None:
    assert "serve" in run(installed / "agent-env", "--help").stdout


@pytest.mark.timeout(600)
def test_the_wheel_holds_what_the_package_reads_at_run_time(installed: Path) -> None:
    source = ROOT / "src"
    expected = {
        str(file.relative_to(source))
        for file in (source / "agent_env").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    (wheel,) = (installed.parent.parent / "dist").glob("*.whl")
    assert expected - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_importing_the_package_is_quick() -> None:
    """Under 0.3 s of processor time: the least of five, which other load on the machine does not lengthen."""
    program = "import agent_env, os; print(sum(os.times()[:2]))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    seconds = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment).stdout)
        for _ in range(5)
    ]
    assert min(seconds) < 0.3
