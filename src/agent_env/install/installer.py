"""Installs what a bundle names in ``[install]`` of its bundle.toml.

Into the running Python pip adds packages and changes none: what is installed is held at its version. pip downloads and
builds everything before it installs anything, so a download that fails leaves the environment as it was, and a second
call goes on with what is in pip's cache. A venv of a bundle's own counts once its stamp is written; one without is
removed when a step of it fails, and made anew by the next call.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_env import cache
from agent_env.bundle import Bundle, find_bundle, load_bundle
from agent_env.errors import InputError, Problem
from agent_env.files import write_atomically
from agent_env.install import pip
from agent_env.install.needs import STAMP, data_folder, digest, lacking, name_of, no_data, venv_folder
from agent_env.manifest import Manifest, read_manifest


@dataclass(frozen=True)
class Setup:
    """A bundle's folder, its manifest, and the packages that it lacks."""

    folder: Path
    manifest: Manifest
    lacks: tuple[str, ...]

    @property
    def state(self) -> str:
        """Whether the bundle can be played, in words."""
        if self.manifest.install is None:
            return "nothing to install"
        return f"not installed ({self.size})" if self.lacks else "installed"

    @property
    def size(self) -> str:
        """How much is downloaded at most, in words."""
        assert self.manifest.install is not None
        return f"about {self.manifest.install.download_mb} MB"

    @property
    def data(self) -> str:
        """What data the bundle plays, in words."""
        data = self.manifest.data
        if data is None:
            return "own data"
        if problem := no_data(data):
            return f"no data ({problem.where}: {problem.what})"
        place = data_folder(data)
        return f"official data in {place}" if place else f"own data (official: {data.variable})"

    def told(self, source: Path | None = None) -> list[str]:
        """What would be installed, from where, how large it is, and under which licence, a line each."""
        install, data = self.manifest.install, self.manifest.data
        lines = []
        if install is not None:
            where = f"a venv of its own, {venv_folder(self.manifest)}" if install.venv else f"{sys.prefix}"
            whence = f"from {source}" if source else f"by pip ({self.size} with all that they need)"
            lines = [f"packages: {', '.join(install.packages)}", f"into {where}, {whence}"]
            lines += [f"licence of {name}: {licence}" for name, licence in install.licences.items()]
            lines += [install.note] if install.note else []
        if data is not None:
            usual = f", else {data.folder}" if data.folder else ""
            lines.append(f"data: {self.data}; {data.what} ({data.licence}) is never downloaded, and played where it is")
            lines[-1] += f" ({data.variable}{usual}, with {data.holds} in it)"
        return lines


def setup_of(bundle: str | Path) -> Setup:
    """The setup of a bundle, in its folder or built in. Raises BundleError."""
    folder = find_bundle(bundle)
    manifest = read_manifest(folder / "bundle.toml").manifest
    return Setup(folder, manifest, tuple(lacking(folder, manifest)))


def install(setup: Setup, source: Path | None = None) -> Bundle:
    """Install what `setup` names, and load the bundle. Whatever is there already is left as it is.

    Args:
        source: a folder or archive of wheels to install from, without a network.

    Raises:
        InputError: `source` cannot be used, there is no pip, or another installation is running.
        InstallFailed: pip failed.
        BundleError: all is installed, and the bundle cannot be loaded nevertheless.
    """
    needs = setup.manifest.install
    if needs is not None and (setup.lacks or not needs.venv):
        pip.check_pip()
        with _alone(), contextlib.ExitStack() as stack:
            wheels = None if source is None else stack.enter_context(pip.wheels_in(source))
            if needs.venv:
                _install_venv(setup, wheels)
            else:
                held = stack.enter_context(pip.nothing_changed(needs.packages))
                quiet = [] if setup.lacks else ["--quiet"]
                pip.install(sys.executable, ["-c", held, *quiet, *needs.packages], wheels)
        importlib.invalidate_caches()
    return load_bundle(setup.folder)


def _install_venv(setup: Setup, wheels: Path | None) -> None:
    needs, folder = setup.manifest.install, venv_folder(setup.manifest)
    assert needs is not None
    with cache.usable():
        cache.clear(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        pip.run([sys.executable, "-m", "venv", "--without-pip", folder])
        file = setup.folder / needs.pins if needs.pins else None
        what = [*needs.packages] if file is None else ["--require-hashes", "-r", str(file)]
        pip.install(folder / "bin" / "python", what, wheels)
        if needs.setup:
            pip.run([folder / "bin" / "python", "-sE", setup.folder / needs.setup])
        names = [name_of(package) for package in needs.packages]
        stamp = {"digest": digest(setup.folder, needs), "packages": names}
        write_atomically(folder / STAMP, json.dumps(stamp))
    except BaseException:
        cache.clear(folder)
        raise


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of installations. Raises InputError if another process does."""
    with cache.usable():
        file = cache.home() / "install.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another `agent-env env install` is running"
            raise InputError(Problem(str(file), what, "wait for it, then call this one again")) from None
        yield
