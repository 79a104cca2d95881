"""Arguments drawn from a tool's JSON Schema: a player that knows no game, for bundles without a demonstrator."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from agent_env.demonstrator import Call, Demonstrator, Play, Reply
from agent_env.task import Turn
from agent_env.tools import ToolSpec

CALLS_PER_TOOL = 2
_DEPTH = 4
_WORDS = ("north", "3", "a cup", "", "ß ☃")
_FORMATS = {
    "date": "2030-05-17",
    "date-time": "2030-05-17T08:30:00Z",
    "time": "08:30:00Z",
    "duration": "PT90S",
    "uuid": "8a2bc3f0-4f6e-4e58-9c8a-4a50a1d7c0de",
    "uri": "https://example.org/a",
    "email": "ada@example.org",
    "ipv4": "192.0.2.1",
}


def drawn(tools: Sequence[ToolSpec], seen: list[str]) -> Demonstrator:
    """A player that calls every tool twice, in any order, and replies with a word.

    Args:
        seen: texts that were offered to the player (admissible actions); answers are added to it as they come.
    """

    def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
        calls = [tool for tool in tools for _ in range(CALLS_PER_TOOL)]
        rng.shuffle(calls)
        for tool in calls:
            answers = yield Call(tool.name, draw(tool.parameters, rng, seen))
            seen.extend(_texts(answers[0]))
        yield Reply(_text({}, rng, seen))

    return demonstrate


def draw(schema: dict[str, Any], rng: random.Random, seen: Sequence[str] = ()) -> Any:
    """A value that fits `schema`, but for a ``pattern``, which is not followed; strings are often one of `seen`."""
    return _draw(schema, schema.get("$defs", {}), rng, seen, 0)


def _texts(answer: str) -> list[str]:
    """What an answer names: the strings of a JSON answer, the words of any other."""
    try:
        return [leaf for leaf in _leaves(json.loads(answer)) if leaf]
    except ValueError:
        return re.findall(r"[\w-]+", answer)[:50]


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for item in value[:50] for leaf in _leaves(item)]
    return [value] if isinstance(value, str) else []


def _draw(schema: Any, defs: dict[str, Any], rng: random.Random, seen: Sequence[str], depth: int) -> Any:
    if not isinstance(schema, dict):  # ``true``: anything
        schema = {}
    if reference := schema.get("$ref"):
        return _draw(defs[reference.rsplit("/", 1)[-1]], defs, rng, seen, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for combined in ("anyOf", "oneOf"):
        if combined in schema:
            branches = schema[combined]
            # Deep in a recursive schema the simplest branch ends it.
            branch = min(branches, key=lambda b: len(json.dumps(b))) if depth > _DEPTH else rng.choice(branches)
            return _draw(branch, defs, rng, seen, depth + 1)
    if "allOf" in schema:
        merged = {key: value for part in schema["allOf"] for key, value in part.items()}
        return _draw({**merged, **{k: v for k, v in schema.items() if k != "allOf"}}, defs, rng, seen, depth)
    kinds = schema.get("type", ["string", "integer", "boolean"])
    kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        return _object(schema, defs, rng, seen, depth)
    if kind == "array":
        return _array(schema, defs, rng, seen, depth)
    if kind in ("integer", "number"):
        return _number(schema, kind == "integer", rng)
    if kind == "boolean":
        return rng.random() < 0.5
    return None if kind == "null" else _text(schema, rng, seen)


def _object(schema: dict[str, Any], defs: dict[str, Any], rng: random.Random, seen: Sequence[str], depth: int) -> Any:
    required = schema.get("required", [])
    drawn = {
        name: _draw(inner, defs, rng, seen, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or (depth <= _DEPTH and rng.random() < 0.5)
    }
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and depth <= _DEPTH:
        drawn |= {word: _draw(more, defs, rng, seen, depth + 1) for word in rng.sample(("a", "b"), rng.randint(0, 2))}
    return drawn


def _array(schema: dict[str, Any], defs: dict[str, Any], rng: random.Random, seen: Sequence[str], depth: int) -> Any:
    fixed = [_draw(inner, defs, rng, seen, depth + 1) for inner in schema.get("prefixItems", [])]
    least = max(schema.get("minItems", 0), len(fixed))
    most = min(schema.get("maxItems", least + 3), least + (0 if depth > _DEPTH else 3))
    inner, items = schema.get("items", {}), list(fixed)
    if inner is False:
        return items
    for _ in range(rng.randint(least, max(least, most)) - len(fixed)):
        item = _draw(inner, defs, rng, seen, depth + 1)
        if not schema.get("uniqueItems") or item not in items:
            items.append(item)
    return items


def _number(schema: dict[str, Any], whole: bool, rng: random.Random) -> int | float:
    step = schema.get("multipleOf", 1 if whole else None)
    low, high = schema.get("minimum"), schema.get("maximum")
    if (above := schema.get("exclusiveMinimum")) is not None:
        low = above + (step or 1e-6)
    if (below := schema.get("exclusiveMaximum")) is not None:
        high = below - (step or 1e-6)
    low = low if low is not None else (min(-5, high - 10) if high is not None else -5)
    high = high if high is not None else max(10, low + 10)
    if step is None:
        return rng.uniform(low, high)
    first, last = -(-low // step), high // step
    drawn = rng.randint(int(first), int(max(first, last))) * step
    return int(drawn) if whole else drawn


def _text(schema: dict[str, Any], rng: random.Random, seen: Sequence[str]) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    text = rng.choice(seen) if seen and rng.random() < 0.7 else rng.choice(_WORDS)
    return text.ljust(schema.get("minLength", 0), "a")[: schema.get("maxLength")]
