"""A tool's JSON Schema as verl's parsers read it.

verl's typed schema knows one type a parameter and no ``anyOf``, ``$ref`` or nesting, so it is made for the *parser*
alone; the chat template renders the row's full JSON Schema. What depends on it is the conversion of arguments written
as bare text (`qwen3_coder`'s XML): ``<parameter=count>3</parameter>`` is the number 3 for an integer, the text "3" for
a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verl.tools.schemas import OpenAIFunctionToolSchema

ANYTHING = "object"
"""The type under which verl reads a value as JSON and keeps it as text if it isn't any."""


def typed(tool: Mapping[str, Any]) -> OpenAIFunctionToolSchema:
    """`tool` (OpenAI's format, parameters in full JSON Schema) as verl's typed schema."""
    function = tool["function"]
    parameters = function.get("parameters") or {}
    definitions = parameters.get("$defs") or parameters.get("definitions") or {}
    properties = {
        name: {"type": parser_type(schema, definitions), "description": _description(schema)}
        for name, schema in (parameters.get("properties") or {}).items()
    }
    return OpenAIFunctionToolSchema.model_validate(
        {
            "type": "function",
            "function": {
                "name": function["name"],
                "description": function.get("description") or "",
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(parameters.get("required") or []),
                },
            },
        }
    )


def parser_type(schema: Any, definitions: Mapping[str, Any]) -> str:
    """The type that makes verl convert a parameter's text as `schema` means it.

    Strings, integers and numbers are themselves (``null`` beside them changes nothing: the parser reads it as such for
    every type). All else is `ANYTHING`. That holds for booleans and arrays too: of a boolean the parser makes ``false``
    out of whatever isn't ``true``, which would run the tool with an argument the model never gave, and of an array it
    reads Python's literals but not JSON's.
    """
    types = _types(schema, definitions, frozenset()) - {"null"}
    if types == {"string"}:
        return "string"
    if types == {"integer"}:
        return "integer"
    if types and types <= {"integer", "number"}:
        return "number"
    return ANYTHING


def _types(schema: Any, definitions: Mapping[str, Any], seen: frozenset[str]) -> set[str]:
    """JSON Schema's names of the types a value of `schema` may have; empty if it doesn't say."""
    if not isinstance(schema, Mapping):
        return set()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        return _types(definitions.get(reference.rsplit("/", 1)[-1]), definitions, seen | {reference})
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return set(declared)
    if "const" in schema or "enum" in schema:
        return {_type_of(value) for value in schema.get("enum", [schema.get("const")])}
    parts = [_types(part, definitions, seen) for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key) or []]
    return set().union(*parts) if all(parts) else set()


def _type_of(value: Any) -> str:
    """JSON Schema's name of the type of `value`."""
    for python, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, python):
            return name
    return "null" if value is None else "array"


def _description(schema: Any) -> str | None:
    return schema.get("description") if isinstance(schema, Mapping) else None
