"""Memories by name: ``none``, ``recent(2)``, ``full``, ``summary(256)``, ``retrieve(3)``, or a class of the user's."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent_env.errors import InputError, Problem
from agent_env.loading import BundleModules, LoadError
from agent_env.training.memory.base import Memory
from agent_env.training.memory.history import Full, Nothing, Recent
from agent_env.training.memory.retrieve import Retrieve, library
from agent_env.training.memory.summary import Summary

DEFAULT = "recent(2)"
FIX = "use none, recent(K), full, summary(TOKENS), retrieve(K), module:Class or /path/to/file.py:Class"

_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*")


def memory_of(name: str, where: str = "memory") -> Callable[[], Memory]:
    """What makes an episode's memory.

    Args:
        name: ``none``; ``recent(K)``, the last K steps (2 if not given); ``full``; ``summary(TOKENS)``, a line a step
            in so many tokens (256); ``retrieve(K)``, the K nearest past observations (3); or a user's own class, made
            without arguments, as ``module:Class`` or ``/path/to/file.py:Class``.
        where: the name was written, for the message.

    Raises:
        InputError: there is no such memory, or the class is none.
        MissingExtra: ``retrieve`` without its library.
    """
    if ":" in name:
        return _own(name, where)
    match = _CALL.fullmatch(name)
    kind, number = (match[1], match[2]) if match else ("", None)
    if number is not None and int(number) < 1:
        raise InputError(Problem(where, f"expected 1 or more in {name!r}", "use none for no memory"))
    if kind == "none" and number is None:
        return Nothing
    if kind == "full" and number is None:
        return Full
    if kind == "recent":
        return partial(Recent, int(number or 2))
    if kind == "summary":
        return partial(Summary, int(number or 256))
    if kind == "retrieve":
        library()
        return partial(Retrieve, int(number or 3))
    raise InputError(Problem(where, f"there is no memory {name!r}", FIX))


@functools.cache  # a loop lives for one rollout, and a file is run anew each time it is loaded
def _own(name: str, where: str) -> Callable[[], Memory]:
    module, _, member = name.rpartition(":")
    try:
        if module.endswith(".py"):
            file = Path(module)
            if not file.is_file():
                raise InputError(Problem(where, f"there is no file {module}", FIX))
            found = BundleModules(file.parent.resolve()).resolve(f"{file.stem}:{member}")
        else:
            found = getattr(importlib.import_module(module), member)
    except LoadError as error:
        raise InputError(Problem(where, f"{name!r}: {error.problem.what}", error.problem.fix)) from error
    except (ImportError, AttributeError, ValueError) as error:
        fix = "it must be importable where the loop runs (PYTHONPATH), or be given by its file"
        raise InputError(Problem(where, f"{name!r} cannot be imported: {error}", fix)) from error
    lacks = [method for method in ("add", "render") if not callable(getattr(found, method, None))]
    if not isinstance(found, type) or lacks:
        what = f"{name!r} is no class" if not isinstance(found, type) else f"{name!r} has no {' and no '.join(lacks)}"
        raise InputError(Problem(where, what, "see agent_env.training.memory.Memory"))
    return found
