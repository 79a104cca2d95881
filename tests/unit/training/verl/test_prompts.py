"""Counting prompts: the same number however they are grouped, whether or not a tokenizer splits at special tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.verl.prompts import PromptCounter
from support.tokenizers import TEMPLATE, save_tokenizer

ADD = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}
MUL = {"type": "function", "function": {"name": "mul", "description": "é", "parameters": {"type": "object"}}}


def messages(prompt: str, system: str = "") -> list[dict[str, str]]:
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": prompt}]


def save_metaspace_tokenizer(folder, **changes):
    """A tokenizer that marks the start of a text, and whose special token takes the spaces around it."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted({chr(code) for code in range(32, 127)} | {"▁", "\n", "é"})
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken("<s>", special=True, **changes), AddedToken("</s>", special=True)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = "{% for m in messages %}<s> {{ m.role }} {{ m.content }} </s>{% endfor %}"
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def counter(tmp_path_factory) -> PromptCounter:
    return PromptCounter(str(save_tokenizer(tmp_path_factory.mktemp("models") / "bytes")))


@pytest.fixture(scope="module", params=["bytes", "metaspace", "strips"], ids=lambda name: f"a tokenizer of {name}")
def any_counter(request, tmp_path_factory) -> PromptCounter:
    folder = tmp_path_factory.mktemp("models") / request.param
    if request.param == "bytes":
        save_tokenizer(folder)
    else:
        save_metaspace_tokenizer(folder, lstrip=request.param == "strips", rstrip=request.param == "strips")
    return PromptCounter(str(folder))


def test_every_byte_of_the_rendering_is_a_token(counter):
    # <s> u s e r \n h é(2) y </s>, then <s> a s s i s t a n t \n n o ␣ t h o u g h t s
    assert counter.count([(messages("héy"), [])]) == [1 + 5 + 4 + 1 + 1 + 10 + 11]


def test_tools_and_arguments_of_the_template_count(tmp_path, counter):
    plain, tools = counter.count([(messages("x"), []), (messages("x"), [ADD])])
    rendering = (
        '{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}'
    )
    assert tools - plain == 1 + len("tools\n") + len(rendering) + 1 + 1
    thinks = PromptCounter(str(save_tokenizer(tmp_path / "model")), {"thinking": True}).count([(messages("x"), [])])
    assert plain - thinks[0] == len("no thoughts")


@given(st.lists(st.tuples(st.text("ab <s>/é\n", max_size=8), st.sampled_from(["", "s", "ss"])), min_size=1, max_size=6))
def test_a_batch_counts_as_one_at_a_time(any_counter, drawn):
    one, other = [ADD], [ADD, MUL]
    prompts = [(messages(prompt, system), one if len(prompt) % 2 else other) for prompt, system in drawn]
    assert any_counter.count(prompts) == [any_counter.count([prompt])[0] for prompt in prompts]


def test_progress_reaches_every_prompt(counter):
    told: list[tuple[int, int]] = []
    one, other = [ADD], [MUL]
    prompts = [(messages(str(i)), one if i % 3 else other) for i in range(600)]
    counter.count(prompts, lambda done, total: told.append((done, total)))
    assert [total for _, total in told] == [600] * len(told)
    assert [done for done, _ in told] == [200, 456, 600]


def test_a_template_that_refuses_is_an_input_error(tmp_path):
    template = TEMPLATE + "{{ raise_exception('only users, please') if messages[0].role == 'system' }}"
    counter = PromptCounter(str(save_tokenizer(tmp_path / "model", template)))
    with pytest.raises(InputError, match="its chat template refuses 'hello': only users, please"):
        counter.count([(messages("hello", "system"), [])])


def test_what_verl_sets_itself_is_no_argument_of_the_template():
    with pytest.raises(InputError, match="verl sets add_generation_prompt, tools itself"):
        PromptCounter("any", {"tools": [], "add_generation_prompt": False, "enable_thinking": True})


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(InputError, match=r"^--tokenizer .*: holds no tokenizer"):
        PromptCounter(str(tmp_path))
