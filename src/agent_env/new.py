"""Writes the bundle that an author starts from."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from agent_env.errors import InputError, Problem

SCAFFOLD = Path(__file__).parent / "scaffold"


def write_bundle(path: Path) -> list[str]:
    """Write the bundle of `SCAFFOLD` into the folder `path`, named after it. The bundle appears whole or not at all.

    Args:
        path: a folder that is made, or an empty one, which is filled: a shell may be in it.

    Returns:
        The names of the files.

    Raises:
        InputError: there is something at `path`, its name cannot be a bundle's, or it cannot be written.
    """
    target = path.resolve()
    name = target.name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise InputError(
            Problem(str(path), f"{name!r} cannot name a bundle", "a letter, then letters, digits, - and _")
        )
    sources = sorted(file for file in SCAFFOLD.iterdir() if file.is_file() and file.name != "__init__.py")
    try:
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise InputError(Problem(str(path), "is there already", "nothing is overwritten; give another path"))
        place = target if target.is_dir() else target.parent
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".agent-env-new-", dir=place) as scratch:
            whole = Path(scratch) / name
            whole.mkdir()
            for source in sources:
                text = source.read_text(encoding="utf-8").replace(SCAFFOLD.name, name)
                (whole / source.name).write_text(text, encoding="utf-8")
            if place is target:
                _fill(target, whole)
            else:
                os.replace(whole, target)
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be written: {error.strerror}")) from error
    return [source.name for source in sources]


def _fill(folder: Path, whole: Path) -> None:
    """Move the files of `whole` into `folder`, ``bundle.toml`` last: it makes a bundle of the folder."""
    moved = []
    try:
        for file in sorted(whole.iterdir(), key=lambda file: file.name == "bundle.toml"):
            moved.append(file.rename(folder / file.name))
    except BaseException:
        for file in moved:
            file.unlink(missing_ok=True)
        raise
