"""A demonstration as a conversation, and a conversation as tokens with the model's own marked."""

import pytest

from agent_env import load_bundle
from agent_env.errors import InputError
from agent_env.training.tasks import END_TURN_TOOL
from agent_env.training.tiny.conversations import demonstrate, text_of, tokens_of
from agent_env.training.tiny.tokenizer import blank_tokenizer, learn_tokenizer
from support.bundles import TOML, jsonl, task, write_bundle

DEMONSTRATOR = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    first = yield [Call("add", {"amount": 2}), Call("add", {"amount": 0})]
    yield Call("add", {"amount": 2 if rng.random() < error_rate else 3})
    yield Reply(f"{len(first)} answers")
"""


def counter(folder, *tasks, **files):
    return load_bundle(
        write_bundle(folder, {"demonstrator.py": DEMONSTRATOR, "tasks/train.jsonl": jsonl(*tasks), **files})
    )


def played(bundle, **options):
    told = []
    given = {"times": 1, "error_rate": 0.0, "seed": 0, **options}
    conversations = demonstrate(bundle, "train", progress=lambda *step: told.append(step), **given)
    assert told == [("demonstrating", done + 1, len(conversations)) for done in range(len(conversations))]
    return conversations


def test_a_demonstration_as_a_conversation(tmp_path):
    bundle = counter(tmp_path, task(system_prompt="Count."))
    (conversation,) = played(bundle)
    assert conversation.tools == tuple(tool.openai() for tool in bundle.toolset(bundle.tasks("train")[0]).tools)
    assert conversation.reward == 1.0
    system, user, calls, one, two, again, three, reply = conversation.messages
    assert system == {"role": "system", "content": "Count."}
    assert user == {"role": "user", "content": "Bring the counter to 5.\n\nThe counter shows 0."}
    assert [call["function"] for call in calls["tool_calls"]] == [
        {"name": "add", "arguments": {"amount": 2}},
        {"name": "add", "arguments": {"amount": 0}},
    ]
    assert one == {"role": "tool", "content": "The counter shows 2."}
    assert two == {"role": "tool", "content": "amount: adding 0 does nothing"}
    assert [call["function"]["arguments"] for call in again["tool_calls"]] == [{"amount": 3}]
    assert three == {"role": "tool", "content": "The counter shows 5."}
    assert reply == {"role": "assistant", "content": "2 answers"}


def test_a_turn_that_is_not_the_last_is_ended_by_a_call(tmp_path):
    turns = [
        {"id": "count", "prompt": "Bring it to 5.", "verifier": {"type": "env"}},
        {"id": "say", "prompt": "How many answers were there?", "verifier": {"type": "contains", "text": "2"}},
    ]
    bundle = counter(tmp_path, task(turns=turns), **{"bundle.toml": TOML + 'reward = "mean"\n'})
    (conversation,) = played(bundle)
    assert conversation.tools[-1] == END_TURN_TOOL
    roles = [message["role"] for message in conversation.messages]
    turn = ["assistant", "tool", "tool", "assistant", "tool"]
    assert roles == ["user", *turn, "assistant", "tool", *turn, "assistant"]
    ending, answer = conversation.messages[6:8]
    assert ending["tool_calls"][0]["function"] == {"name": "end_turn", "arguments": {"response": "2 answers"}}
    assert answer["content"] == "How many answers were there?"


def test_plays_repeat_with_the_seed(tmp_path):
    bundle = counter(tmp_path, *(task(f"t{number}") for number in range(4)))
    one, same, other = (played(bundle, times=3, error_rate=0.5, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    assert [c.task for c in one] == ["t0", "t1", "t2", "t3"] * 3
    assert {c.reward for c in one} == {0.0, 1.0}


def test_the_tokens_are_those_of_the_whole_text_and_the_models_are_marked(tmp_path):
    (conversation,) = played(counter(tmp_path, task(system_prompt="Count.")))
    text = text_of(conversation, blank_tokenizer())
    tokenizer = learn_tokenizer([text] * 5)
    (tokens,) = tokens_of([conversation], tokenizer)
    assert list(tokens.ids) == tokenizer.encode(text)[:-1]  # a rollout ends with the model's end token
    said = [token for token, mine in zip(tokens.ids, tokens.mask, strict=True) if mine]
    assert tokenizer.decode(said) == (
        '<tool_call>\n{"name": "add", "arguments": {"amount": 2}}\n</tool_call>\n'
        '<tool_call>\n{"name": "add", "arguments": {"amount": 0}}\n</tool_call><|im_end|>'
        '<tool_call>\n{"name": "add", "arguments": {"amount": 3}}\n</tool_call><|im_end|>'
        "2 answers<|im_end|>"
    )


def test_a_template_that_rewrites_the_past_is_refused(tmp_path):
    (conversation,) = played(counter(tmp_path, task()))
    tokenizer = learn_tokenizer([text_of(conversation, blank_tokenizer())] * 5)
    tokenizer.chat_template = "{{ messages | length }} messages" + tokenizer.chat_template
    with pytest.raises(ValueError, match="append-only"):
        tokens_of([conversation], tokenizer)


def test_what_cannot_be_demonstrated(tmp_path):
    bundle = load_bundle(write_bundle(tmp_path / "silent"))
    with pytest.raises(InputError, match=r"bundle 'counter' has no demonstrator.py"):
        played(bundle)
    empty = TOML.replace('["train"]', '["train", "more"]')
    bundle = counter(tmp_path / "empty", **{"bundle.toml": empty, "tasks/more.jsonl": jsonl(task())})
    with pytest.raises(InputError, match="split 'train' of bundle 'counter' has no task"):
        played(bundle)
