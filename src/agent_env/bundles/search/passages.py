"""What is searched and shown: passages, each with a title."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

NOTHING = "No document was found."
_HEAD = re.compile(r"^Doc \d+ \(Title: (.*)\)$", re.MULTILINE)


class Passage(NamedTuple):
    """A piece of a document."""

    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as they are indexed."""
        return f"{self.title}\n{self.text}"


def shown(passages: Sequence[Passage]) -> str:
    """The answer to a search, best passage first."""
    parts = [f"Doc {n} (Title: {passage.title})\n{passage.text}" for n, passage in enumerate(passages, 1)]
    return "\n\n".join(parts) or NOTHING


def read_shown(text: str) -> list[Passage]:
    """The passages in the answer to a search."""
    _, *parts = _HEAD.split(text)
    return [Passage(title, body.strip()) for title, body in zip(parts[::2], parts[1::2], strict=True)]


def pieces(title: str, text: str, most: int) -> list[Passage]:
    """A document as passages of at most `most` characters, cut between sentences where one is not longer than that."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z\"(])|\n+", text.strip()):
        for start in range(0, len(sentence), most):
            part = sentence[start : start + most]
            if found and len(found[-1]) + 1 + len(part) <= most:
                found[-1] += f" {part}"
            else:
                found.append(part)
    return [Passage(title, part) for part in found if part.strip()]
