"""``bundle.toml``: a bundle's name, what plays it, how it is scored, where it runs and within what limits."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from agent_env.errors import BundleError, Problem
from agent_env.validation import Loc, Strict, path, problems_of

Seconds = Annotated[float, Field(gt=0)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


def _split(name: str) -> str:
    """A split names a file of the bundle's folder, and so must not be able to leave it."""
    if name == "all":
        raise ValueError("'all' is every split together: name this one otherwise")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise ValueError("a split's name has letters, digits, - and _ only, so that tasks/NAME.jsonl is in the folder")
    return name


Split = Annotated[str, AfterValidator(_split)]


class Hosting(Strict):
    """Where the environment's code runs.

    ``async``: one event loop for all episodes, in a thread of its own, for code that never blocks; ``threads``: a
    thread an episode; ``processes``: a worker process an episode, for code that may crash or block for good. `workers`
    is how many of those wait, started, for the next episodes.
    """

    mode: Literal["async", "threads", "processes"] = "threads"
    workers: Annotated[int, Field(ge=1, le=1024)] = 4


class Limits(Strict):
    """Deadlines in seconds, the most bytes that one answer may have, and what a worker process may take.

    `max_memory_mb` is in MB of 2**20 bytes, `max_cpu_seconds` of processor time from one request to the next; both
    count a worker process with all that it started, and hold where ``hosting.mode`` is ``processes``.
    """

    reset_timeout: Seconds = 300.0
    call_timeout: Seconds = 60.0
    score_timeout: Seconds = 60.0
    max_answer_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024
    max_memory_mb: Annotated[int, Field(ge=64)] = 2048
    max_cpu_seconds: Seconds = 600.0


class Steps(Strict):
    """What the step layout should know of this bundle, unless a training says otherwise; None to leave it to that.

    `tags` are those that actions are written in, from a tag's name to the tool that takes what stands in it as the one
    argument that it requires, or to ``end_turn``; without them a text environment has ``<action>``, and the model calls
    the tools of any other. `memory` is a name or ``module:Class`` (see `agent_env.training.memory.memory_of`),
    `max_steps` an episode's most.
    """

    tags: Annotated[dict[Identifier, str], Field(min_length=1)] | None = None
    memory: str | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None


Requirement = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?\s*([<>=!~][^;@]*)?$")]
"""A package as pip takes it, ``textworld[pddl]>=1.7,<1.8``."""


class Install(Strict):
    """What the bundle's code needs beside this package; ``agent-env env install`` installs it.

    `packages` go into the running Python, or with `venv` into one of the bundle's own; `pins` names a file of the
    bundle's folder for that, with all of them and what they need, each at a version and with its hashes, and `setup` a
    script of it that the venv's Python runs last. The rest is told to who installs it: what is downloaded at most,
    licences by package, and a note.
    """

    packages: Annotated[list[Requirement], Field(min_length=1)]
    venv: bool = False
    pins: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    setup: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")] | None = None
    download_mb: Annotated[int, Field(ge=0)]
    licences: dict[str, str]
    note: str = ""


class Data(Strict):
    """Official data, which the bundle plays where it is there; without, it plays its own.

    `variable` names the environment variable with its folder, `folder` where it is if that is not set ("" for none),
    `holds` a path in it by which it is known to be there.
    """

    what: str
    licence: str
    variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
    folder: str = ""
    holds: str


def _reward(value: object) -> object:
    """One complaint in place of one per kind that a reward may have."""
    table = isinstance(value, dict) and all(type(weight) in (int, float) for weight in value.values())
    if not (isinstance(value, str) or table):
        raise ValueError("expected a step id, 'mean', 'sum', 'module:function' or a table of a weight per step id")
    return value


class Manifest(Strict):
    """The whole file. `reward` is None if not written; `env` is ``module:Class``.

    `draw_seeds` says that a training may play a task with other seeds than its own: that what is asked and what is
    scored both follow from the seed.
    """

    name: Identifier
    env: str
    splits: Annotated[list[Split], Field(min_length=1)]
    description: str = ""
    draw_seeds: bool = False
    reward: Annotated[str | dict[str, float] | None, BeforeValidator(_reward)] = None
    hosting: Hosting = Hosting()
    limits: Limits = Limits()
    steps: Steps = Steps()
    install: Install | None = None
    data: Data | None = None


@dataclass(frozen=True)
class ManifestFile:
    """A manifest and the text it was read from."""

    manifest: Manifest
    name: str
    text: str

    def where(self, *keys: int | str) -> str:
        """A place in the file, ``bundle.toml:7 hosting.mode``."""
        return _where(self.name, self.text, keys)


def read_manifest(file: Path) -> ManifestFile:
    """Read a ``bundle.toml``.

    Raises:
        BundleError: with every problem of the file and its line.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line_number = error.object.count(b"\n", 0, error.start) + 1
        raise BundleError(Problem(f"{file.name}:{line_number}", "not UTF-8", "save it as UTF-8")) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        at = line[1] if line else str(text.count("\n") + 1)
        raise BundleError(Problem(f"{file.name}:{at}", f"not TOML: {error}")) from error
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        raise BundleError(problems_of(error, Manifest, lambda loc: _where(file.name, text, loc))) from error
    problems = []
    if manifest.hosting.mode != "processes":
        fix = 'set hosting.mode = "processes"'
        for key in sorted({"max_memory_mb", "max_cpu_seconds"} & manifest.limits.model_fields_set):
            where = _where(file.name, text, ("limits", key))
            problems.append(Problem(where, f"no such limit can be held in {manifest.hosting.mode!r}", fix))
    for key, why in (("pins", "pins would change packages that are installed"), ("setup", "setup is for a venv alone")):
        named = getattr(manifest.install, key, None)
        if manifest.install is not None and named is not None:
            where = _where(file.name, text, ("install", key))
            if not manifest.install.venv:
                problems.append(Problem(where, why, "set install.venv = true"))
            elif not (file.parent / named).is_file():
                problems.append(Problem(where, f"there is no {named} beside {file.name}", "write it"))
    repeated = sorted({split for split in manifest.splits if manifest.splits.count(split) > 1})
    where = _where(file.name, text, ("splits",))
    problems += [Problem(where, f"split {split!r} is named twice", "remove one") for split in repeated]
    if problems:
        raise BundleError(problems)
    return ManifestFile(manifest, file.name, text)


def _where(name: str, text: str, loc: Loc) -> str:
    line = _line(text, loc)
    return f"{name}{f':{line}' if line else ''} {path(loc)}".strip()


def _line(text: str, loc: Loc) -> int | None:
    """The line on which the key that `loc` names is written, or its table; None if neither is found."""
    keys = [str(part) for part in loc if isinstance(part, str)]
    table: list[str] = []
    found = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.-]+)\s*\]+", line):
            table = header[1].split(".")
            written = table
        elif assignment := re.match(r"\s*([\w.-]+|\"[^\"]*\")\s*=", line):
            written = [*table, *assignment[1].strip('"').split(".")]
        else:
            continue
        if written == keys:
            return number
        if written and written == keys[: len(written)]:
            found = number
    return found
