"""Official questions: the parquet files that Search-R1's and verl-agent's scripts write.

``train.parquet`` and ``test.parquet``, a question a row. Read are ``question`` or the ``question`` of ``extra_info`` or
``env_kwargs``; ``golden_answers`` or ``reward_model.ground_truth.target``; and ``data_source``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_env.errors import InputError, MissingExtra, Problem

FILES = {"train": "train.parquet", "eval": "test.parquet"}
COLUMNS = ("question", "golden_answers", "data_source", "reward_model", "extra_info", "env_kwargs")


def read_questions(folder: Path, split: str) -> list[tuple[str, list[str], str]]:
    """Each question of a split, with its answers and the name of its data set.

    Raises:
        InputError: the file cannot be read, or has rows without question or answer; the first ten of them.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as missing:
        raise MissingExtra("search", "pyarrow") from missing
    file = folder / FILES[split]
    try:
        names = [name for name in COLUMNS if name in parquet.read_schema(file).names]
        rows = parquet.read_table(file, columns=names).to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise InputError(Problem(str(file), f"cannot be read: {error}")) from error
    found: list[tuple[str, list[str], str]] = []
    problems: list[Problem] = []
    for number, row in enumerate(rows):
        question, answers = _question(row), _answers(row)
        if question and answers:
            source = str(row.get("data_source") or "")
            found.append((question if question.endswith("?") else f"{question}?", answers, source))
        else:
            lacks = "question" if not question else "answer"
            problems.append(Problem(f"{file.name} row {number}", f"has no {lacks}", f"columns: {', '.join(COLUMNS)}"))
    if problems:
        more = len(problems) - 10
        raise InputError([*problems[:10], *([Problem(file.name, f"and {more} more such rows")] if more > 0 else [])])
    return found


def _question(row: Mapping[str, Any]) -> str:
    places = (row.get("question"), _at(row, "extra_info", "question"), _at(row, "env_kwargs", "question"))
    return str(next((text for text in places if text), "")).strip()


def _answers(row: Mapping[str, Any]) -> list[str]:
    places = (row.get("golden_answers"), _at(row, "reward_model", "ground_truth", "target"))
    found: Any = next((answers for answers in places if answers), [])
    return [found] if isinstance(found, str) else [str(answer) for answer in found]


def _at(row: Any, *path: str) -> Any:
    for key in path:
        row = row.get(key) if isinstance(row, Mapping) else None
    return row
