"""JSON values: what an author's code returned as plain JSON, and what in it JSON cannot hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any


def nonfinite(value: Any) -> str | None:
    """Path (``""``, ``.cost``, ``[3].x``) of the first float in `value` that JSON has no word for, or None."""
    return _first(value, lambda item: isinstance(item, float) and not math.isfinite(item))


def surrogate(value: Any) -> str | None:
    """Path of the first text in `value` with a lone surrogate, half of a character, or None."""
    return _first(value, lambda item: isinstance(item, str) and not item.isascii() and readable(item) != item)


def _first(value: Any, wrong: Callable[[Any], bool], path: str = "") -> str | None:
    if wrong(value):
        return path
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", part) for key, item in value.items() for part in (key, item))
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    return next((found for place, part in parts if (found := _first(part, wrong, place)) is not None), None)


def plain(value: Any) -> Any:
    """`value` (pydantic models, dataclasses, enums, numpy scalars and arrays …) as plain JSON types.

    Raises:
        ValueError: something in it has no JSON form, or is NaN or infinite; says what and where.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        result = to_jsonable_python(value, fallback=_numpy, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise ValueError(f"a {type(value).__name__} that is not JSON-able: {error}") from error
    if (where := nonfinite(result)) is not None:
        raise ValueError(f"NaN or an infinity{f' at {where}' if where else ''}")
    return result


def readable(value: Any) -> Any:
    """`value`, of plain JSON types, with every lone surrogate in its texts replaced by U+FFFD.

    Such text comes of file names that are not UTF-8; no JSON that others read can hold it.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {readable(key): readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [readable(item) for item in value]
    return value


def _numpy(value: Any) -> Any:
    """numpy's and torch's values say themselves what they are in plain Python; nothing else does."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")
