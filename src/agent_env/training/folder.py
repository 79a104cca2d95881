"""A folder whose files appear all at once: whoever looks, whenever, sees all the old ones or all the new ones.

The new folder is built beside the old one and the two are exchanged in one system call. A writer that is killed leaves
the old folder as it was, and a hidden one beside it that the next writer clears away.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_env.errors import InputError, Problem


def check_target(folder: Path) -> list[Problem]:
    """What keeps `folder` from being replaced, as far as it can be told without touching it."""
    where, target = str(folder), folder.resolve()
    if target.exists() and not target.is_dir():
        return [Problem(where, "is a file", "name a folder")]
    if target in (Path.cwd(), *Path.cwd().parents):
        return [Problem(where, "is the current folder, or around it", "name a folder of its own")]
    if (target / "bundle.toml").exists():
        return [Problem(where, "is a bundle's folder", "name a folder of its own")]
    if target.is_dir():
        inside = sorted(entry.name for entry in target.iterdir() if entry.is_dir() or entry.is_symlink())
        if inside:
            return [Problem(where, f"holds folders or links ({', '.join(inside)})", "name a folder of its own")]
    parent = next(parent for parent in target.parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return [Problem(where, f"cannot be made: {parent} is not writable", "name another folder")]
    return []


@contextlib.contextmanager
def replacing(folder: Path, stale: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield an empty folder to write into; when the block ends without an error it becomes `folder`.

    Args:
        folder: made if it is not there; what it holds is replaced.
        stale: of a file in the old folder: whether it goes. All others stay.

    Raises:
        InputError: see `check_target`; another process is writing the same folder; or the system refuses, as a full
            disk does. What was there is left as it was.
    """
    problems = check_target(folder)
    if problems:
        raise InputError(problems)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.writing")
    with contextlib.ExitStack() as locks:
        if target.is_dir():
            locks.enter_context(_locked(target, folder))
        fresh.mkdir(exist_ok=True)
        locks.enter_context(_locked(fresh, folder))
        _clear(fresh)
        try:
            yield fresh
            for entry in target.iterdir() if target.is_dir() else ():
                if not (fresh / entry.name).exists() and not stale(entry):
                    _keep(entry, fresh / entry.name)
            if target.is_dir():
                shutil.copymode(target, fresh)
            for path in (*fresh.iterdir(), fresh):
                _sync(path)
            _exchange(fresh, target)
            _sync(target.parent)
        except OSError as error:
            what = f"cannot be written: {error.strerror or error}"
            fix = "make room, or name another folder; what was there is as it was"
            raise InputError(Problem(str(folder), what, fix)) from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _keep(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError:  # a file system without hard links
        shutil.copy2(old, new)


def _clear(folder: Path) -> None:
    """Remove what a writer that was killed left."""
    for entry in folder.iterdir():
        entry.unlink()


@contextlib.contextmanager
def _locked(path: Path, asked: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(Problem(str(asked), "another process is writing it", "wait for it to end")) from None
        yield
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(fresh: Path, target: Path) -> None:
    """Put `fresh` where `target` is, and the old folder, if there is one, where `fresh` was."""
    if not target.exists():
        fresh.rename(target)
        return
    with contextlib.suppress(NotImplementedError):
        _swap(fresh, target)
        return
    # A file system that cannot exchange two names (NFS): for the moment between two renames the name is missing.
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _swap(one: Path, other: Path) -> None:
    """Exchange two names. Raises NotImplementedError where the system or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = -100  # AT_FDCWD; unused, since the paths are absolute
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(os.fsencode(one), os.fsencode(other), 2)  # RENAME_SWAP
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), 2)  # RENAME_EXCHANGE
    else:
        raise NotImplementedError
    if failed:
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise NotImplementedError
        raise OSError(code, os.strerror(code), str(other))
