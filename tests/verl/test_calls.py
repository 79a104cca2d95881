"""What the model is answered when verl's parser leaves a call out."""

import pytest

from agent_env.training.verl.calls import CheckedParser, UnreadCall
from agent_env.training.verl.schemas import typed

GOOD = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "add", "arguments": {"a": 1}\n</tool_call>'
XML_GOOD = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture(scope="session")
def add():
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    return typed({"type": "function", "function": {"name": "add", "description": "", "parameters": parameters}})


@pytest.fixture
def read(qwen3, add):
    async def read(text, parser="hermes"):
        return await CheckedParser(parser, qwen3).extract_tool_calls(qwen3.encode(text), [add])

    return read


async def test_a_message_that_verl_reads_is_read_as_verl_reads_it(read):
    content, (call,) = await read(f"Adding.\n{GOOD}<|im_end|>")
    assert (content, call.name, call.arguments) == ("Adding.\n<|im_end|>", "add", '{"a": 1}')


async def test_plain_text_has_no_calls(read):
    assert await read("The answer is 3.<|im_end|>") == ("The answer is 3.<|im_end|>", [])


async def test_a_call_that_is_no_json_takes_its_place_among_the_others(read):
    _, calls = await read(f"{GOOD}\n{BROKEN}\n{GOOD}<|im_end|>")
    assert [isinstance(call, UnreadCall) for call in calls] == [False, True, False]
    assert "not valid JSON: Expecting ',' delimiter" in calls[1].problem
    assert "Nothing was run" in calls[1].problem


@pytest.mark.parametrize(
    "body", ['{"name": "add", "args": {"a": 1}}', '{"name": 3, "arguments": {}}', '["add"]', "add(1)", ""]
)
async def test_a_call_of_another_shape_is_answered(read, body):
    _, calls = await read(f"<tool_call>\n{body}\n</tool_call><|im_end|>")
    assert [type(call) for call in calls] == [UnreadCall]
    assert "could not be read" in calls[0].problem


async def test_a_call_that_is_not_closed_is_answered(read):
    _, (call,) = await read('<tool_call>\n{"name": "add", "arguments": {"a": 1}}<|im_end|>')
    assert "the tags around it" in call.problem


async def test_nesting_too_deep_for_a_parser_is_answered(read):
    deep = "[" * 5000 + "]" * 5000
    _, (call,) = await read(f'<tool_call>\n{{"name": "add", "arguments": {deep}}}\n</tool_call><|im_end|>')
    assert "nested too deeply" in call.problem


async def test_a_call_that_was_only_thought_of_is_no_mistake(read):
    thought = "I could write <tool_call>\nadd(1)\n</tool_call>, or <tool_call>"
    assert (await read(f"<think>\n{thought}\n</think>\n\nThe answer is 3.<|im_end|>"))[1] == []


async def test_a_call_may_speak_of_calls(read):
    text = '<tool_call>\n{"name": "add", "arguments": {"a": "write <tool_call>"}}\n</tool_call><|im_end|>'
    (call,) = (await read(text))[1]
    assert call.arguments == '{"a": "write <tool_call>"}'


async def test_xml_is_read_by_the_typed_schema(read):
    (call,) = (await read(f"{XML_GOOD}<|im_end|>", "qwen3_coder"))[1]
    assert call.arguments == '{"a": 1}'


async def test_one_broken_xml_call_costs_no_other(read):
    _, calls = await read(f"<tool_call>\n<function=add\n</tool_call>\n{XML_GOOD}<|im_end|>", "qwen3_coder")
    assert isinstance(calls[0], UnreadCall)
    assert calls[1].arguments == '{"a": 1}'


async def test_an_xml_call_broken_off_by_the_end_of_the_message_is_not_run_with_it(read):
    (call,) = (await read("<tool_call>\n<function=add>\n<parameter=a>\n1<|im_end|>", "qwen3_coder"))[1]
    assert isinstance(call, UnreadCall)
    assert "not complete" in call.problem


async def test_hermes_json_is_no_call_in_xml(read):
    (call,) = (await read(f"{GOOD}<|im_end|>", "qwen3_coder"))[1]
    assert "not in the format" in call.problem


async def test_a_parser_without_blocks_is_left_as_it_is(qwen3):
    text = "<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{oops<|call|>"
    _, (call,) = await CheckedParser("gpt-oss", qwen3).extract_tool_calls(qwen3.encode(text))
    assert (call.name, call.arguments) == ("add", "{oops")


@pytest.mark.parametrize("written", ["{oops", "[1]", ""])
async def test_arguments_that_kimis_parser_would_empty_are_answered(read, written):
    call = "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    section = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
    _, calls = await read(section.format(call.format('{"a": 1}') + call.format(written) + call.format("{ }")), "kimi")
    assert [type(call).__name__ for call in calls] == ["FunctionCall", "UnreadCall", "FunctionCall"]
    assert [call.arguments for call in calls] == ['{"a": 1}', written, "{}"]
    assert calls[1].tool_call_id == "functions.add:0"


def test_stop_tokens_are_the_parsers(qwen3):
    assert CheckedParser("hermes", qwen3).stop_token_ids == []
    assert CheckedParser("gemma4", qwen3).stop_token_ids == [qwen3.convert_tokens_to_ids("<tool_call|>")]
