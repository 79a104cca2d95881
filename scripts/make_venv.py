"""Build a virtual environment once, and again only when what it is built from has changed.

``make_venv.py FOLDER --from FILE... -- PIP_ARGS [-- PIP_ARGS]...`` makes FOLDER with the Python that runs this script
and calls ``pip install PIP_ARGS`` for each group. ``FOLDER/built.json`` is written last, so an interrupted build is
known as such and starts over. It holds a digest of everything that decides what gets installed (a second call with
the same digest does nothing) and how long the build took, in seconds. Needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PYTHON = (3, 11)
"""The version that the pinned packages were resolved for."""

STEP_TIMEOUT = 1800.0
"""Seconds one pip command may take; pip's own timeouts end a stalled download long before."""

STAMP = "built.json"


def digest_of(folder: Path, files: Sequence[Path], groups: Sequence[Sequence[str]]) -> str:
    """What the environment in `folder` depends on: its place, the Python, pip's arguments and the files' contents."""
    digest = hashlib.sha256()
    for part in (str(folder), sys.version, json.dumps([list(group) for group in groups])):
        digest.update(part.encode() + b"\0")
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def stamp_of(folder: Path) -> dict[str, object]:
    """The record of the last finished build in `folder`; empty where there is none."""
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def build(folder: Path, digest: str, groups: Sequence[Sequence[str]]) -> None:
    """Make the environment in `folder`; reuses a finished older one, starts over after an interrupted one.

    Raises:
        subprocess.CalledProcessError: venv or pip failed; pip has said why.
        subprocess.TimeoutExpired: one of them took longer than `STEP_TIMEOUT`.
    """
    started = time.monotonic()
    reusable = bool(stamp_of(folder))
    (folder / STAMP).unlink(missing_ok=True)
    say(f"{'updating' if reusable else 'building'} {folder.name} (minutes the first time)")
    venv = [sys.executable, "-m", "venv", str(folder)] + ([] if reusable else ["--clear"])
    subprocess.run(venv, check=True, timeout=STEP_TIMEOUT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for number, group in enumerate(groups, 1):
        say(f"step {number} of {len(groups)}: pip install {' '.join(group)}")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
        pip += group
        subprocess.run(pip, check=True, timeout=STEP_TIMEOUT, env=environment)
    # pip would do this on one core, for half of its time. There are files that are no Python: the status says nothing.
    site = folder / "lib" / f"python{PYTHON[0]}.{PYTHON[1]}" / "site-packages"
    every_core = [str(folder / "bin" / "python"), "-m", "compileall", "-qq", "-j", "0", str(site)]
    subprocess.run(every_core, check=False, timeout=STEP_TIMEOUT, env=environment)
    seconds = round(time.monotonic() - started, 1)
    fresh = folder / (STAMP + ".new")
    fresh.write_text(json.dumps({"digest": digest, "seconds": seconds}) + "\n")
    os.replace(fresh, folder / STAMP)
    say(f"{folder.name} is ready after {seconds:.0f} s")


def say(line: str) -> None:
    print(f"make_venv: {line}", file=sys.stderr, flush=True)


def parsed(arguments: Sequence[str]) -> tuple[Path, list[Path], list[list[str]]]:
    """Split ``FOLDER --from FILE... -- PIP_ARGS -- PIP_ARGS`` into folder, files and pip's argument groups."""
    groups: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "--":
            groups.append([])
        else:
            groups[-1].append(argument)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="files", type=Path, nargs="+", required=True, metavar="FILE")
    own = parser.parse_args(groups[0])
    if len(groups) < 2 or not all(groups[1:]):
        parser.error("name what to install: -- PIP_ARGS")
    return own.folder.absolute(), own.files, groups[1:]


def main(arguments: Sequence[str]) -> int:
    folder, files, groups = parsed(arguments)
    if sys.version_info[:2] != PYTHON:
        wanted, here = ".".join(map(str, PYTHON)), ".".join(map(str, sys.version_info[:2]))
        say(f"the pinned packages are for Python {wanted}, this is {here}: make PYTHON=/path/to/python{wanted} …")
        return 2
    lock_file = folder.with_name(folder.name + ".lock")
    with lock_file.open("w") as lock:  # two makes at once build once; the second waits for the first, then is done
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = digest_of(folder, files, groups)
        if stamp_of(folder).get("digest") == digest:
            return 0
        try:
            build(folder, digest, groups)
        except subprocess.CalledProcessError as error:
            say(f"`{' '.join(error.cmd)}` failed with status {error.returncode}; its output above says why")
            return 1
        except subprocess.TimeoutExpired as error:
            say(f"`{' '.join(error.cmd)}` took longer than {error.timeout:.0f} s")
            return 1
        except KeyboardInterrupt:
            say("interrupted; the next call starts over")
            return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
