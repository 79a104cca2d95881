"""Whether the packages that a bundle names in ``[install]`` are installed, and where its official data is.

Packages go into the running Python or, with ``venv = true``, into a venv of the bundle's own: ``envs/NAME`` in the
cache (`agent_env.cache`), complete once its stamp is there, which holds a digest of what was asked for.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path

from agent_env import cache
from agent_env.errors import BundleError, Problem
from agent_env.manifest import Data, Install, Manifest, read_manifest

STAMP = "installed.json"


def name_of(requirement: str) -> str:
    """``textworld`` of ``textworld[pddl]>=1.7``."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def lacking(folder: Path, manifest: Manifest) -> list[str]:
    """The packages of ``[install]`` that are not installed; for a venv of its own all of them or none."""
    install = manifest.install
    if install is None:
        return []
    if install.venv:
        made = _stamp(venv_folder(manifest)) == digest(folder, install)
        return [] if made else [name_of(package) for package in install.packages]
    return [name for name in map(name_of, install.packages) if not _installed(name)]


def venv_folder(manifest: Manifest) -> Path:
    """Where the venv of a bundle is, or would be."""
    return cache.home() / "envs" / manifest.name


def venv_python(folder: Path) -> Path:
    """The Python of the bundle in `folder`, which has a venv of its own: for the bundle's code to start.

    Raises:
        BundleError: it is not installed.
    """
    manifest = read_manifest(folder / "bundle.toml").manifest
    if problem := not_installed(folder, manifest):
        raise BundleError(problem)
    return venv_folder(manifest) / "bin" / "python"


def not_installed(folder: Path, manifest: Manifest, where: str = "[install]") -> Problem | None:
    """The problem of a bundle whose packages are not installed; None if there is none."""
    lacks = lacking(folder, manifest)
    if not lacks:
        return None
    from agent_env.bundle import BUILT_IN  # which imports this module

    name = folder.name if folder.parent == BUILT_IN else str(folder)
    whose = "packages of a venv of its own" if manifest.install and manifest.install.venv else "packages"
    what = f"{manifest.name} needs {whose} that are not installed: {', '.join(lacks)}"
    return Problem(where, what, f"agent-env env install {name}")


def digest(folder: Path, install: Install) -> str:
    """What a venv depends on: the Python, the packages, the file that pins them, and the script that sets it up."""
    files = [(folder / name).read_text(encoding="utf-8") if name else "" for name in (install.pins, install.setup)]
    told = json.dumps([sys.version, sorted(install.packages), *files])
    return hashlib.sha256(told.encode()).hexdigest()


def no_data(data: Data | None) -> Problem | None:
    """The problem of a variable that names a folder without the official data; None if there is none."""
    named = os.environ.get(data.variable) if data else None
    if data is None or not named or data_folder(data) is not None:
        return None
    remedy = "name the folder that has it; set to nothing, the variable asks for the bundle's own data"
    return Problem(data.variable, f"{named} has no {data.holds}", remedy)


def official_data(folder: Path) -> Path | None:
    """The folder of the official data of the bundle in `folder`; None if it is not there, or has none."""
    data = read_manifest(folder / "bundle.toml").manifest.data
    return None if data is None else data_folder(data)


def data_folder(data: Data) -> Path | None:
    """Where official data is: what the variable names or, if that is not set, its usual folder; None if not there."""
    named = os.environ.get(data.variable, data.folder)
    place = Path(named).expanduser()
    return place if named and (place / data.holds).exists() else None


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _stamp(folder: Path) -> str:
    try:
        return str(json.loads((folder / STAMP).read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
