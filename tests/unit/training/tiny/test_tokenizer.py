"""How text is cut, what becomes one token, and what a chat looks like."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from agent_env.training.tiny.tokenizer import MARKERS, blank_tokenizer, learn_tokenizer, number_of

TEXTS = [
    f"<|im_start|>system\nAnswer the question, please.<|im_end|>\n<|im_start|>user\nIs {city} in {land}?<|im_end|>\n"
    '<|im_start|>assistant\n<tool_call>\n{"name": "look_up", "arguments": {"code": "ABBA"}}\n</tool_call><|im_end|>\n'
    for city, land in (("Graz", "Austria"), ("Lyon", "France"), ("Porto", "Portugal"))
    for _ in range(5)
]
TOKENIZER = learn_tokenizer(TEXTS)


def pieces(text):
    return [TOKENIZER.decode([token]) for token in TOKENIZER.encode(text)]


def test_numbers_up_to_two_digits_are_one_token_each():
    assert pieces("7 -3 12 99 -99 0") == ["7", " -3", " 12", " 99", " -99", " 0"]
    assert pieces("[-5,05]") == ["[", "-5", ",", "05", "]"]
    assert pieces(" 12345") == [" 12", "34", "5"]
    assert pieces("2025-11-29") == ["20", "25", "-11", "-29"]


def test_codes_are_a_token_a_letter():
    assert pieces('"ABBA"') == ['"', "A", "B", "B", "A", '"']
    assert pieces(" AustriaX") == [" Austria", "X"]


def test_a_drawn_grid_is_a_token_a_cell_however_often_its_rows_are_seen():
    learned = learn_tokenizer(["# # #\n# . A\n. . *\n# Tools - and rules."] * 10)
    tokens = [learned.decode([token]) for token in learned.encode("# # #\n# . A\n. . *\n# Tools - and rules.")]
    assert tokens == ["#", " #", " #", "\n", "#", " .", " A", "\n", ".", " .", " *", "\n", "# Tools - and rules."]


def test_what_every_conversation_says_is_one_token_and_what_differs_is_read_word_by_word():
    assert pieces("Answer the question, please.") == ["Answer the question, please."]
    assert pieces('{"name": "look_up", "arguments": {"code": "') == ['{"name": "look_up", "arguments": {"code": "']
    assert pieces("Is Lyon in Austria?") == ["Is", " Lyon", " in", " Austria", "?"]


def test_a_token_has_at_most_250_characters():
    long = learn_tokenizer(["x" * 600] * 2)
    assert [len(token) for token in long.tokenize("x" * 600)] == [250, 250, 100]


def test_line_ends_and_markers_stand_alone():
    assert pieces("\n\n") == ["\n", "\n"]
    for marker in MARKERS:
        assert pieces(f"{marker}\n{marker}") == [marker, "\n", marker]
    assert TOKENIZER.decode(TOKENIZER.encode("<tool_call>"), skip_special_tokens=True) == "<tool_call>"
    assert TOKENIZER.decode(TOKENIZER.encode("a<|im_end|>"), skip_special_tokens=True) == "a"


@given(st.text())
def test_any_text_can_be_written_and_read(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.integers(-99, 99))
def test_the_number_of_a_token(number):
    assert number_of(str(number)) == number_of(f" {number}") == number


@pytest.mark.parametrize("text", ["100", "", "-", "x", "1.", "١", " - 1"])
def test_what_is_no_number(text):
    assert number_of(text) is None


def test_it_survives_being_saved(tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert len(loaded) == len(TOKENIZER)
    assert (loaded.eos_token, loaded.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert loaded.encode(TEXTS[0]) == TOKENIZER.encode(TEXTS[0])
    assert loaded.chat_template == TOKENIZER.chat_template


def test_another_process_learns_the_same_one():
    learn = (
        "import sys; from agent_env.training.tiny.tokenizer import learn_tokenizer\n"
        "print(learn_tokenizer(sys.argv[1:]).backend_tokenizer.to_str())"
    )
    env = {**os.environ, "RAYON_NUM_THREADS": "3", "PYTHONHASHSEED": "1"}
    run = subprocess.run([sys.executable, "-c", learn, *TEXTS], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == TOKENIZER.backend_tokenizer.to_str()


# --- the chat template ----------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "f", "description": "é", "parameters": {}}}
SHOWN = '{"type": "function", "function": {"name": "f", "description": "é", "parameters": {}}}'
HOW = 'Call a tool like this:\n<tool_call>\n{"name": "...", "arguments": {}}\n</tool_call>'


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("messages", "tools", "text"),
    [
        ([{"role": "user", "content": "hi"}], None, "<|im_start|>user\nhi<|im_end|>\n"),
        (
            [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
            None,
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n",
        ),
        (
            [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
            [TOOL],
            f"<|im_start|>system\ns\n\n# Tools\n<tools>\n{SHOWN}\n</tools>\n{HOW}<|im_end|>\n"
            "<|im_start|>user\nhi<|im_end|>\n",
        ),
        (
            [{"role": "user", "content": "hi"}],
            [TOOL],
            f"<|im_start|>system\n# Tools\n<tools>\n{SHOWN}\n</tools>\n{HOW}<|im_end|>\n"
            "<|im_start|>user\nhi<|im_end|>\n",
        ),
        (
            [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [call("f", {"a": 1}), call("g", '{"b": 2}')]},
                {"role": "tool", "content": "one"},
                {"role": "tool", "content": "two"},
                {"role": "assistant", "content": "so", "tool_calls": [call("f", {})]},
                {"role": "tool", "content": "three"},
                {"role": "assistant", "content": "end"},
                {"role": "system", "content": "more"},
            ],
            None,
            "<|im_start|>user\nhi<|im_end|>\n"
            '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "g", "arguments": {"b": 2}}\n</tool_call><|im_end|>\n'
            "<|im_start|>user\n<tool_response>\none\n</tool_response>\n"
            "<tool_response>\ntwo\n</tool_response><|im_end|>\n"
            '<|im_start|>assistant\nso\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>\n'
            "<|im_start|>user\n<tool_response>\nthree\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\nend<|im_end|>\n"
            "<|im_start|>system\nmore<|im_end|>\n",
        ),
    ],
)
def test_the_chat_template(messages, tools, text):
    render = blank_tokenizer().apply_chat_template
    assert render(messages, tools=tools, tokenize=False) == text
    prompt = render(messages, tools=tools, tokenize=False, add_generation_prompt=True)
    assert prompt == text + "<|im_start|>assistant\n"
