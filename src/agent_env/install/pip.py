"""pip, as a process that is ended with this one's request, and never asks anything."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_env.errors import AgentEnvError, InputError, Problem
from agent_env.install.needs import name_of

TIMEOUT = 3600.0
"""Seconds that one command may take; pip's own timeouts end a download that stands still long before."""


class InstallFailed(AgentEnvError):
    """pip or venv failed; its own output says why."""


def run(command: Sequence[str | Path]) -> None:
    """Run a command with its output on stderr.

    Raises:
        InstallFailed: it failed, or took longer than `TIMEOUT`.
    """
    words = [str(part) for part in command]
    settings = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    # A group of its own, so that compilers that pip started are ended with it.
    process = subprocess.Popen(words, stdout=2, env=environment | settings, start_new_session=True)
    try:
        status = process.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        raise InstallFailed(f"`{' '.join(words)}` took longer than {TIMEOUT:.0f} s") from None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        raise InstallFailed(f"`{' '.join(words)}` failed with status {status}; its output above says why")


def install(python: str | Path, arguments: Sequence[str | Path], wheels: Path | None) -> None:
    """``pip install`` into the environment of `python`, which needs no pip of its own.

    Args:
        wheels: a folder to install from, and from nowhere else; None for the index that pip is set to.

    Raises:
        InstallFailed: see `run`.
    """
    offline: list[str | Path] = [] if wheels is None else ["--no-index", "--find-links", wheels]
    run([sys.executable, "-m", "pip", "--python", python, "install", *offline, *arguments])


@contextlib.contextmanager
def nothing_changed(besides: Sequence[str]) -> Iterator[Path]:
    """Yields a file of constraints that holds every installed package at its version, but for those of `besides`."""
    free = {_key(name_of(package)) for package in besides}
    held: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name and _key(name) not in free:
            held.setdefault(_key(name), f"{name}=={distribution.version}\n")
    with tempfile.TemporaryDirectory(prefix="agent-env-install-") as scratch:
        file = Path(scratch) / "installed.txt"
        file.write_text("".join(sorted(held.values())), encoding="utf-8")
        yield file


@contextlib.contextmanager
def wheels_in(source: Path) -> Iterator[Path]:
    """Yields the folder of wheels that `source` is, or that it holds as an archive (zip or tar).

    Raises:
        InputError: there is no such file or folder, it is no archive, or there is no wheel in it.
    """
    with tempfile.TemporaryDirectory(prefix="agent-env-wheels-") as scratch:
        folder = source
        if source.suffix == ".whl" and source.is_file():
            folder = source.parent
        elif source.is_file():
            folder = Path(scratch)
            try:
                # A tar file first: one that ends with a wheel looks like a zip file.
                if tarfile.is_tarfile(source):
                    with tarfile.open(source) as archive:
                        archive.extractall(folder, filter="data")
                else:
                    shutil.unpack_archive(source, folder, "zip")
            except (OSError, tarfile.TarError, shutil.ReadError) as error:
                raise InputError(Problem("--from", f"{source} is no archive of wheels: {error}")) from error
        found = sorted({wheel.parent for wheel in folder.rglob("*.whl")}) if folder.is_dir() else []
        if not found:
            what = f"{source} holds no wheel" if source.exists() else f"there is no {source}"
            fix = "a folder that `pip wheel -w FOLDER …` filled, or an archive of one"
            raise InputError(Problem("--from", what, fix))
        yield found[0]


def check_pip() -> None:
    """Raises InputError if the running Python has no pip."""
    if importlib.util.find_spec("pip") is None:
        fix = f"{sys.executable} -m ensurepip"
        raise InputError(Problem(sys.prefix, "this Python environment has no pip to install with", fix))


def _key(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
