"""``bundle.toml``: a bundle's name, what plays it, how it is scored, where it runs and within what limits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agent_env.errors import Problem
from agent_env.validation import Loc, Strict, path, problems_of

Seconds = Annotated[float, Field(gt=0)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


class Hosting(Strict):
    """Where the environment's code runs.

    ``async``: in the server's own loop, for code that never blocks; ``threads``: a thread an episode;
    ``processes``: warm worker processes, for code that may crash or block for good. `workers` is how many of them.
    """

    mode: Literal["async", "threads", "processes"] = "threads"
    workers: Annotated[int, Field(ge=1, le=1024)] = 4


class Limits(Strict):
    """Deadlines in seconds, and the most bytes that one answer may have."""

    reset_timeout: Seconds = 300.0
    call_timeout: Seconds = 60.0
    score_timeout: Seconds = 60.0
    max_answer_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024


class Manifest(Strict):
    """The whole file. `reward` is None if not written; `env` is ``module:Class``."""

    name: Identifier
    env: str
    splits: Annotated[list[str], Field(min_length=1)]
    description: str = ""
    reward: str | dict[str, float] | None = None
    hosting: Hosting = Hosting()
    limits: Limits = Limits()


def read_manifest(file: Path) -> Manifest | list[Problem]:
    """The manifest, or every problem of the file with its line."""
    try:
        text = file.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        return [Problem(file.name, f"not UTF-8 at byte {error.start}", "save it as UTF-8")]
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        at = line[1] if line else str(text.count("\n") + 1)
        return [Problem(f"{file.name}:{at}", f"not TOML: {error}")]

    def where(loc: Loc) -> str:
        line = _line(text, loc)
        return f"{file.name}{f':{line}' if line else ''} {path(loc)}".strip()

    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        return problems_of(error, Manifest, where)
    problems = []
    for index, split in enumerate(manifest.splits):
        if split == "all":
            problems.append(Problem(where(("splits",)), "'all' is every split together", "name it otherwise"))
        elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", split):
            what = f"split {split!r} cannot be a file's name in the bundle's folder"
            problems.append(Problem(where(("splits",)), what, "use letters, digits, - and _"))
        elif split in manifest.splits[:index]:
            problems.append(Problem(where(("splits",)), f"split {split!r} is named twice", "remove one"))
    return problems or manifest


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
