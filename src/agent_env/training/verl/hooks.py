"""Run something right after a module was imported, whoever imports it and whenever.

verl's registries live in modules that take seconds to import, and most Ray workers need only a few of them. So what we
register is registered when such a module comes, not when verl itself does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class _Watching(Loader):
    """A module's own loader, with something to do once the module has run."""

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must find its own loader: it may read resources through it.
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()


class _Finder(MetaPathFinder):
    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Watching(spec.loader, self._then)
        return spec


def after_import(name: str, then: Callable[[], None]) -> None:
    """Call `then` once: when module `name` has been imported, or now if it has been already.

    What `then` raises comes out of the import.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(name, then))
