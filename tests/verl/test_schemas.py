"""A JSON Schema as verl's parsers read it."""

import json
from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from agent_env.training.verl.calls import CheckedParser
from agent_env.training.verl.schemas import typed


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    number: int | None = None


class Order(BaseModel):
    count: int
    price: float
    note: str
    urgent: bool
    tags: list[str]
    address: Address
    size: Size
    level: Literal[1, 2, 3]
    mixed: int | float
    perhaps: int | None = None
    comment: str | None = None
    either: str | list[str]
    anything: object = None


def tool(parameters):
    return {"type": "function", "function": {"name": "order", "description": "Order.", "parameters": parameters}}


@pytest.fixture(scope="module")
def order():
    return typed(tool(TypeAdapter(Order).json_schema()))


def test_every_parameter_has_a_type_verl_knows(order):
    properties = order.function.parameters.properties
    assert {name: schema.type for name, schema in properties.items()} == {
        "count": "integer",
        "price": "number",
        "note": "string",
        "urgent": "object",
        "tags": "object",
        "address": "object",
        "size": "string",
        "level": "integer",
        "mixed": "number",
        "perhaps": "integer",
        "comment": "string",
        "either": "object",
        "anything": "object",
    }
    assert order.function.parameters.required == [
        "count", "price", "note", "urgent", "tags", "address", "size", "level", "mixed", "either",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("count", "3", 3),
        ("count", "three", "three"),
        ("price", "2.50", 2.5),
        ("note", "5", "5"),
        ("note", '{"a": 1}', '{"a": 1}'),
        ("urgent", "true", True),
        ("urgent", "False", False),
        ("urgent", "maybe", "maybe"),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("tags", "[true, null]", [True, None]),
        ("address", '{"street": "A", "number": null}', {"street": "A", "number": None}),
        ("address", "nowhere", "nowhere"),
        ("size", "small", "small"),
        ("level", "2", 2),
        ("mixed", "1.5", 1.5),
        ("perhaps", "null", None),
        ("perhaps", "7", 7),
        ("comment", "7", "7"),
        ("either", '["a"]', ["a"]),
        ("either", "plain", "plain"),
        ("anything", "__import__('os').getpid()", "__import__('os').getpid()"),
    ],
)
async def test_xml_arguments_are_converted_as_the_schema_means_them(qwen3, order, parameter, text, value):
    xml = f"<tool_call>\n<function=order>\n<parameter={parameter}>\n{text}\n</parameter>\n</function>\n</tool_call>"
    _, (call,) = await CheckedParser("qwen3_coder", qwen3).extract_tool_calls(qwen3.encode(xml), [order])
    assert json.loads(call.arguments) == {parameter: value}
    assert type(json.loads(call.arguments)[parameter]) is type(value)


def test_a_tool_without_parameters():
    schema = typed({"type": "function", "function": {"name": "look"}})
    assert schema.function.parameters.properties == {}
    assert schema.function.description == ""


def test_a_schema_that_refers_to_itself():
    tree = {"$defs": {"T": {"$ref": "#/$defs/T"}}, "properties": {"t": {"$ref": "#/$defs/T"}}}
    assert typed(tool(tree)).function.parameters.properties["t"].type == "object"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["integer", "null"]}, "integer"),
        ({"type": ["string", "integer"]}, "object"),
        ({"const": "a"}, "string"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"enum": [1, 2.5]}, "number"),
        ({"allOf": [{"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "string"}, {}]}, "object"),
        (True, "object"),
        ({}, "object"),
    ],
)
def test_other_ways_to_say_a_type(schema, expected):
    assert typed(tool({"properties": {"x": schema}})).function.parameters.properties["x"].type == expected
