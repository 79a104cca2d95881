"""A bundle's own Python: each folder is imported as a package of its own, so two bundles may both have an ``env.py``.

Inside a bundle, modules import each other relatively (``from .mail import inbox``).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import re
import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_env.errors import Problem

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_lock = threading.RLock()  # a bundle's module may itself load a bundle


class LoadError(ValueError):
    """A ``module:name`` that cannot be had; `problem` says where and why."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.problem = Problem(where, what, fix)
        super().__init__(what)


def leads_outside(folder: Path, file: Path, where: str) -> Problem | None:
    """The problem of a bundle's file that a link leads out of `folder`, which must be resolved; None if it stays."""
    if file.resolve().is_relative_to(folder):
        return None
    return Problem(where, f"leads outside the bundle's folder, to {file.resolve()}", "copy the file")


class BundleModules:
    """Imports from one bundle's folder, executed anew for each instance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        self.package = f"agent_env_bundle_{digest}"
        self._loaded: dict[str, ModuleType | LoadError] = {}
        with _lock:
            for name in [n for n in sys.modules if n == self.package or n.startswith(f"{self.package}.")]:
                del sys.modules[name]
            spec = importlib.machinery.ModuleSpec(self.package, None, is_package=True)
            spec.submodule_search_locations = [str(self.folder)]
            sys.modules[self.package] = importlib.util.module_from_spec(spec)
            importlib.invalidate_caches()

    def has(self, module: str) -> bool:
        """Whether the folder itself holds `module`."""
        target = self.folder.joinpath(*module.split("."))
        return target.with_suffix(".py").is_file() or target.is_dir()

    def module(self, name: str) -> ModuleType:
        """A module of the folder or, if it has none of that name, an installed one. Raises LoadError."""
        with _lock:
            if name not in self._loaded:
                self._loaded[name] = self._imported(name)
            found = self._loaded[name]
        if isinstance(found, LoadError):
            raise found
        return found

    def _imported(self, name: str) -> ModuleType | LoadError:
        own = self.has(name)
        target = self.folder.joinpath(*name.split("."))
        for file in (target.with_suffix(".py"), target / "__init__.py"):
            if own and (problem := leads_outside(self.folder, file, file.name)) is not None:
                return LoadError(problem.what, problem.where, problem.fix)
        try:
            return importlib.import_module(f"{self.package}.{name}" if own else name)
        except (Exception, SystemExit) as error:
            return self._explained(name, error)

    def resolve(self, reference: str) -> Any:
        """The object that ``module:name`` names. Raises LoadError."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise LoadError(f"expected module:name, got {reference!r}")
        module = self.module(match[1])
        if not hasattr(module, match[2]):
            names = [n for n in vars(module) if not n.startswith("_")]
            raise LoadError(f"module {match[1]!r} has no {match[2]!r}", fix=f"it has: {', '.join(names) or 'nothing'}")
        return getattr(module, match[2])

    def _explained(self, name: str, error: BaseException) -> LoadError:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and missing == name and not self.has(name):
            return LoadError(f"there is no {name.replace('.', '/')}.py in the bundle, nor a module {name!r} installed")
        if isinstance(error, SyntaxError):
            return LoadError(f"SyntaxError: {error.msg}", f"{Path(error.filename or name).name}:{error.lineno}")
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(self.folder)]
        where = f"{Path(frames[-1].filename).relative_to(self.folder)}:{frames[-1].lineno}" if frames else name
        fix = ""
        if missing is not None and self.has(missing):
            fix = f"inside a bundle, import relatively: from . import {missing}"
        return LoadError(f"{type(error).__name__}: {error}", where, fix)
