"""A docstring as a model reads it: what a tool does, and what each of its arguments is."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?|References|Source):\s*$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def parse(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the description of each argument in the ``Args:`` section."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    start = next((i for i, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return "\n".join(lines[:start]).strip(), _arguments(lines[start:])


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    inside, indent, name = False, 0, ""
    for line in lines:
        if _SECTION.match(line):
            inside, indent, name = line.startswith(("Args", "Arguments", "Parameters")), 0, ""
            continue
        if not inside or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        entry = _ENTRY.match(line.strip()) if depth <= indent else None
        if entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
