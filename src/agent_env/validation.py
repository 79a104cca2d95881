"""From pydantic's errors to `Problem`s: where each is, what is wrong, and what was perhaps meant."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_env.errors import Problem

Loc = tuple[int | str, ...]


class Strict(BaseModel):
    """Base of what users write in files: no unknown key, no conversion between types, never changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def path(loc: Loc) -> str:
    """``("turns", 0, "id")`` as ``turns[0].id``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to write in place of the unknown `name`: the nearest of `known`, or all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(known)}" if known else "there are none"


def problems_of(error: ValidationError, model: type[BaseModel], where: Callable[[Loc], str]) -> list[Problem]:
    """Every error of a validation by `model`; `where` names a place in the user's file."""
    found = []
    for item in error.errors(include_url=False):
        loc = item["loc"]
        if item["type"] == "extra_forbidden":
            fix = suggestion(str(loc[-1]), _keys(model, loc))
            found.append(Problem(where(loc), f"unknown key {loc[-1]!r}", fix))
        elif item["type"] == "missing":
            found.append(Problem(where(loc), f"{loc[-1]!r} is missing", "add it"))
        elif item["type"] == "model_type":
            keys = ", ".join(_keys(model, (*loc, "")))
            found.append(Problem(where(loc), f"expected a table with the keys {keys}, got {item['input']!r:.80}"))
        else:
            message = str(item["ctx"]["error"]) if item["type"] == "value_error" else item["msg"]
            found.append(Problem(where(loc), f"{message}, got {item['input']!r:.80}"))
    return found


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys allowed where `loc` points, found by walking from `model`."""
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        inner = [a for a in (annotation, *typing.get_args(annotation)) if isinstance(a, type)]
        nested = [a for a in inner if issubclass(a, BaseModel)]
        if not nested:
            return []
        model = nested[0]
    return list(model.model_fields)
