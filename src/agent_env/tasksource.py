"""Where a bundle's tasks come from: ``tasks/<split>.jsonl``, a task a line, or ``tasks(split)`` of a ``tasks.py``."""

from __future__ import annotations

import codecs
import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import Field, ValidationError

from agent_env.errors import Problem
from agent_env.jsonable import plain
from agent_env.loading import BundleModules, LoadError, leads_outside
from agent_env.task import Task, Turn
from agent_env.validation import Strict, path, problems_of


class _Turn(Strict):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    prompt: str
    verifier: dict[str, Any] | None = None


class _Task(Strict):
    id: Annotated[str, Field(min_length=1)]
    turns: Annotated[list[_Turn], Field(min_length=1)]
    system_prompt: str = ""
    env: dict[str, Any] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A task and where it was written (``tasks/train.jsonl:3``)."""

    where: str
    task: Task


def read_tasks(modules: BundleModules, splits: list[str], problems: list[Problem]) -> dict[str, list[Placed]]:
    """Every split's tasks, in order; what is wrong with any of them is added to `problems`."""
    folder = modules.folder / "tasks"
    script = modules.folder / "tasks.py"
    if folder.is_dir() and script.is_file():
        problems.append(Problem("tasks", "there is a folder tasks/ and a tasks.py", "keep one of them"))
        return {}
    if script.is_file():
        return {split: list(_from_script(modules, split, problems)) for split in splits}
    for extra in sorted(folder.glob("*.jsonl")):
        if extra.stem not in splits:
            problems.append(
                Problem(f"tasks/{extra.name}", "not a split of bundle.toml", f"add {extra.stem!r} to splits")
            )
    return {split: list(_from_lines(modules.folder, f"tasks/{split}.jsonl", problems)) for split in splits}


def line_problems(folder: Path) -> list[Problem]:
    """What is wrong with the lines of a bundle's task files, whatever its splits are."""
    problems: list[Problem] = []
    for file in sorted((folder / "tasks").glob("*.jsonl")):
        for _ in _from_lines(folder, f"tasks/{file.name}", problems):
            pass
    return problems


def _from_lines(folder: Path, name: str, problems: list[Problem]) -> Iterator[Placed]:
    file = folder / name
    if not file.is_file():
        problems.append(Problem(name, "there is no such file", "write it, or take the split out of bundle.toml"))
        return
    if (problem := leads_outside(folder, file, name)) is not None:
        problems.append(problem)
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if line.strip():
                yield from _parsed(line, f"{name}:{number}", problems)


def _parsed(line: bytes, where: str, problems: list[Problem]) -> Iterator[Placed]:
    try:
        data = json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refused)
    except UnicodeDecodeError as error:
        problems.append(Problem(where, f"not UTF-8 at byte {error.start} of the line", "save the file as UTF-8"))
        return
    except json.JSONDecodeError as error:
        # Its own text counts lines within this one.
        problems.append(Problem(where, f"not JSON: {error.msg} at column {error.colno}"))
        return
    except (ValueError, RecursionError) as error:
        problems.append(Problem(where, f"not JSON: {error}"))
        return
    yield from _checked(data, where, problems)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} is written twice")
    return table


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _from_script(modules: BundleModules, split: str, problems: list[Problem]) -> Iterator[Placed]:
    where = f"tasks.py tasks({split!r})"
    try:
        items = modules.resolve("tasks:tasks")(split)
        if not isinstance(items, Iterable):
            raise TypeError(f"expected a list of tasks, got a {type(items).__name__}")
        listed = list(items)
    except LoadError as error:
        problem = error.problem
        known = any(p.what == problem.what for p in problems)
        problems += [] if known else [Problem(problem.where or "tasks.py", problem.what, problem.fix)]
        return
    except (Exception, SystemExit) as error:
        problems.append(Problem(where, f"{type(error).__name__}: {error}"))
        return
    for index, item in enumerate(listed):
        at = f"{where}[{index}]"
        try:
            data = plain(dataclasses.asdict(item) if isinstance(item, Task) else item)
        except ValueError as error:
            problems.append(Problem(at, str(error)))
            continue
        yield from _checked(data, at, problems)


def _checked(data: Any, where: str, problems: list[Problem]) -> Iterator[Placed]:
    try:
        read = _Task.model_validate(data)
    except ValidationError as error:
        problems += problems_of(error, _Task, lambda loc: f"{where} {path(loc)}".strip())
        return
    halves = [name for name, text in _texts(data) if not _encodable(text)]
    if halves:
        what = "holds half of a surrogate pair, which is no character"
        problems += [Problem(f"{where} {name}".strip(), what, "write the whole character") for name in halves]
        return
    ids = [turn.id for turn in read.turns]
    for repeated in sorted({i for i in ids if ids.count(i) > 1}):
        problems.append(Problem(f"{where} turns", f"two turns have the id {repeated!r}", "scores are recorded by it"))
    problems += [
        Problem(f"{where} turns[{index}].prompt", "is empty: the agent would be asked nothing", "write what to do")
        for index, turn in enumerate(read.turns)
        if not turn.prompt.strip()
    ]
    turns = tuple(Turn(turn.id, turn.prompt, turn.verifier) for turn in read.turns)
    yield Placed(where, Task(read.id, turns, read.system_prompt, read.env, read.seed, read.name or read.id))


def _texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a task, keys too, with its place (``turns[0].prompt``)."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield place, key
            yield from _texts(item, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{place}[{index}]")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
