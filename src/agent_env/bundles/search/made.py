"""The questions that are made of the packages, made once and kept."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import msgspec

from agent_env.errors import InputError, Problem

from .library import CORPUS, FOUND, Library, Settings
from .questions import Question, make_questions


class MadeQuestions(msgspec.Struct):
    """The questions by split, and the names that are read as countries."""

    countries: list[str]
    splits: dict[str, list[Question]]


@functools.cache
def made_questions() -> MadeQuestions:
    """Read them, or make them.

    Raises:
        InputError: the packages are not installed, or another corpus is searched, which says nothing of them.
    """
    if os.environ.get(CORPUS):
        what = "is searched, but the questions here are about the packages' passages"
        raise InputError(Problem(CORPUS, what, "name a folder with questions for it in SEARCH_R1_DATA"))
    library = Library(Settings())
    modules = ("facts", "solving", "questions", "bm25", "library")
    file = library.kept("questions.json", modules, lambda fresh: _make(library, fresh))
    return msgspec.json.decode(file.read_bytes(), type=MadeQuestions)


def _make(library: Library, file: Path) -> None:
    bm25 = library.bm25()
    splits = make_questions(library.packages, lambda query: bm25.search([query], FOUND)[0])
    file.write_bytes(msgspec.json.encode(MadeQuestions(list(library.packages.countries), splits)))
