"""Templates that append and templates that do not, on a real tokenizer."""

from __future__ import annotations

import logging

import pytest

from agent_env.errors import InputError
from agent_env.training.verl.appending import check_appending
from agent_env.training.verl.models import load_tokenizer
from support.tiny_folder import tiny_folder
from support.tokenizers import save_tokenizer

PLAIN = (
    "{{ tools | tojson if tools }}{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}{{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}"
    "</s>{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
OTHERWISE = "renders a message otherwise once others follow"


def check(folder, template, context="conversation", **template_kwargs):
    tokenizer = load_tokenizer(str(save_tokenizer(folder / "model", template)), "--model")
    check_appending(tokenizer, template_kwargs, "--model 'm'", context=context)


@pytest.mark.parametrize(
    "template",
    [
        PLAIN,
        # Of a call's arguments it takes JSON's text alone, and no system prompt.
        PLAIN.replace("call.function.arguments | tojson", "'with ' + call.function.arguments"),
        # What ends the whole conversation may move.
        PLAIN + "{% if not add_generation_prompt %}<s>{% endif %}",
        # Tools are shown with the first message of the user's, which stays the first.
        "{% for m in messages %}<s>{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}"
        "{{ tools | tojson if tools and loop.first }}</s>{% endfor %}",
        # Cut by a message of the user's, which no rollout has twice.
        PLAIN.replace("{{ m.content }}", "{{ m.content if messages[-1].role != 'user' or loop.last else '' }}"),
    ],
)
def test_a_template_that_appends(tmp_path, template, caplog):
    check(tmp_path, template)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (PLAIN.replace("in messages", "in messages[-2:]"), OTHERWISE),
        (PLAIN.replace("{{ m.content }}", "{{ m.content if m.role != 'tool' or loop.last else '(cut)' }}"), OTHERWISE),
        ("{% if messages[-1].role == 'user' %}{{ tools | tojson }}{% endif %}" + PLAIN, OTHERWISE),
        ("<s>{{ messages | length }} messages</s>" + PLAIN, OTHERWISE),
        (PLAIN.replace("m in messages", "m in messages if m.role != 'tool'"), "does not show a tool's answer"),
        ("{{ raise_exception('no tools') if messages | length > 1 }}" + PLAIN, "refuses a tool's answer: no tools"),
    ],
)
def test_a_template_that_does_not(tmp_path, template, said):
    with pytest.raises(InputError) as caught:
        check(tmp_path, template)
    (problem,) = caught.value.problems
    assert str(problem).startswith("--model 'm': its chat template ")
    assert said in str(problem)
    assert "--context steps" in problem.fix
    check(tmp_path, template, context="steps")  # where each prompt is rendered anew


def test_the_arguments_of_the_template_count(tmp_path):
    template = PLAIN.replace("{{ m.role }}", "{{ messages | length if short else m.role }}")
    check(tmp_path / "long", template)
    with pytest.raises(InputError, match=OTHERWISE):
        check(tmp_path / "short", template, short=True)


def test_one_that_cuts_thoughts_is_warned_of_once(tmp_path, caplog):
    cut = "{{ m.content if loop.index0 > messages | length - 3 else m.content.split('</think>')[-1] }}"
    for _ in range(2):
        check(tmp_path, PLAIN.replace("{{ m.content }}", cut))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "--model 'm': its chat template cuts thoughts out of earlier messages" in record.getMessage()


def test_one_that_shows_no_tools_is_warned_of(tmp_path, caplog):
    check(tmp_path, PLAIN.removeprefix("{{ tools | tojson if tools }}"))
    (record,) = caplog.records
    assert record.getMessage().startswith("--model 'm': its chat template shows no tools")


def test_one_that_shows_no_calls_is_warned_of(tmp_path, caplog):
    check(tmp_path, PLAIN.replace("m.tool_calls or []", "[]"))
    (record,) = caplog.records
    assert record.getMessage().startswith("--model 'm': its chat template shows no tool calls in earlier messages")


def test_verl_itself_is_asked_where_the_models_family_is_known(tmp_path):
    folder = tiny_folder(tmp_path / "tiny")
    check_appending(load_tokenizer(str(folder), "--model"), {}, "--model 'm'")
    # Qwen3's family ends a message with a token that this tokenizer does not have.
    other = save_tokenizer(tmp_path / "other", PLAIN)
    (other / "config.json").write_bytes((folder / "config.json").read_bytes())
    for context in ("conversation", "steps"):
        says = r"verl cannot render a prompt of a qwen3 model with this tokenizer: .*<\|im_end\|>"
        with pytest.raises(InputError, match=says):
            check_appending(load_tokenizer(str(other), "--model"), {}, "--model 'm'", context=context)
