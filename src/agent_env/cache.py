"""The folder for what is made once and kept: venvs of bundles, games, indexes.

``AGENT_ENV_HOME`` names it; if that is not set it is ``agent-env`` in ``XDG_CACHE_HOME``, or in ``~/.cache``. What is
in it can be made again, so the folder may be removed while nothing runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_env.errors import InputError, Problem

VARIABLE = "AGENT_ENV_HOME"
PATIENCE = 120.0
"""Seconds to wait for another process that makes the same thing."""


def home() -> Path:
    """The cache's folder, absolute; it need not be there."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "agent-env"


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder `name` of the cache, made if it is not there: whole or not at all, by one process of many.

    Args:
        name: a relative path; whatever decides what is made must be in it.
        make: writes to the path that it is given, which is not there yet.

    Raises:
        InputError: the cache cannot be written.
    """
    target = home() / name
    if target.exists():
        return target
    with contextlib.ExitStack() as held:
        with usable():
            target.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(_turn(target.with_name(f".{target.name}.lock")))
            scratch = held.enter_context(tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent))
        if target.exists():
            return target
        fresh = Path(scratch) / target.name
        make(fresh)
        try:
            os.rename(fresh, target)
        except OSError:
            if not target.exists():  # one that went without the lock may have been quicker
                raise
    return target


@contextlib.contextmanager
def usable() -> Iterator[None]:
    """Within, a cache that cannot be written is an InputError that says where it is."""
    try:
        yield
    except OSError as error:
        place = error.filename or home()
        fix = f"name a folder that can be written in {VARIABLE}"
        raise InputError(Problem(str(place), f"cannot be written: {error.strerror or error}", fix)) from error


@contextlib.contextmanager
def _turn(file: Path) -> Iterator[None]:
    """Hold the lock `file`, or go without it after `PATIENCE`: what is made twice is made the same, and kept once."""
    deadline = time.monotonic() + PATIENCE
    with file.open("w") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
        yield


def clear(path: Path) -> None:
    """Remove a file or folder of the cache, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
