"""JSON values: what an author's code returned as plain JSON, and what in it JSON cannot hold."""

from __future__ import annotations

import math
from typing import Any


def nonfinite(value: Any, path: str = "") -> str | None:
    """Path (``""``, ``.cost``, ``[3].x``) of the first float in `value` that JSON has no word for, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, dict):
        for key, item in value.items():
            if (found := nonfinite(item, f"{path}.{key}")) is not None:
                return found
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if (found := nonfinite(item, f"{path}[{index}]")) is not None:
                return found
    return None


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
