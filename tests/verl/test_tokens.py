"""Tokens in are tokens out: masks, log probabilities and ids of a rollout, whatever its turns look like."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.peers import ended, first_turn, peer, said
from support.verl_tier import StandInModel, hermes, make_loop, spans, trainer_config

ASK = {
    "type": "function",
    "function": {
        "name": "ask",
        "description": "Ask a question.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}
PROMPT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Find out."}]
ROW = {
    "raw_prompt": PROMPT,
    "extra_info": {"split": "train", "index": 0, "task_id": "train-0", "tools": json.dumps([ASK])},
}


def answering(answers):
    """An environment whose tool answers with `answers` in turn."""

    async def play(connection):
        left = list(answers)
        while True:
            request = await connection.recv()
            if request["type"] == "reset":
                await connection.send(first_turn())
            elif request["data"]["tool_name"] == "end_turn":
                await connection.send(ended(0.5, only=0.5))
            else:
                await connection.send(said("ask", left.pop(0)))

    return play


async def play(tokenizer, replies, answers, config=None, thinking=None):
    config = config or trainer_config()
    config.data.apply_chat_template_kwargs = {} if thinking is None else {"enable_thinking": thinking}
    model = StandInModel(tokenizer, *replies, config=config)
    async with peer(answering(answers)) as server:
        entry = {"name": "agentenv", "_target_": "agent_env.training.verl.loop.AgentEnvAgentLoop", "url": server.url}
        output = await make_loop(entry, model, tokenizer, config).run({"temperature": 1.0}, **ROW)
    return output, model, server


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
calls = st.lists(
    st.one_of(texts.map(lambda q: ("ask", {"q": q})), st.just(("ask", "{broken")), st.just(("none", {}))), max_size=3
)
messages = st.tuples(texts, calls)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(messages, min_size=1, max_size=4),
    answers=st.lists(texts, min_size=12, max_size=12),
    response_length=st.sampled_from([24, 96, 2048]),
    max_assistant_turns=st.sampled_from([None, 1, 3]),
    max_parallel_calls=st.integers(1, 3),
    thinking=st.sampled_from([None, False]),
)
def test_a_rollout_is_its_requests_and_replies(
    tokenizer, turns, answers, response_length, max_assistant_turns, max_parallel_calls, thinking
):
    config = trainer_config(
        response_length=response_length,
        multi_turn__max_assistant_turns=max_assistant_turns,
        multi_turn__max_parallel_calls=max_parallel_calls,
    )
    replies = [hermes(*calls, text=text.replace("<", "")) for text, calls in turns] + ["done"]
    output, model, _ = asyncio.run(play(tokenizer, replies, answers, config, thinking))

    # Each request is what came before it, then the environment's tokens, and nothing was changed on the way.
    for before, reply, after in zip(model.prompts, model.replies, model.prompts[1:], strict=False):
        assert after[: len(before) + len(reply)] == before + reply
    whole = model.prompts[-1] + model.replies[-1]
    assert output.prompt_ids == model.prompts[0]
    assert output.prompt_ids + output.response_ids == whole[: len(model.prompts[0]) + response_length]

    # The mask is 1 where, and only where, the model's tokens are; the log probabilities are theirs, in order.
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs) <= response_length
    expected = []
    for prompt, reply in zip(model.prompts, model.replies, strict=True):
        expected += [0] * (len(prompt) - len(model.prompts[0]) - len(expected)) + [1] * len(reply)
    assert output.response_mask == expected[:response_length]
    if len(whole) - len(model.prompts[0]) <= response_length:
        assert sum(output.response_mask) == model.generated
    generated = iter(range(1, model.generated + 1))
    for mask, logprob in zip(output.response_mask, output.response_logprobs, strict=True):
        assert logprob == (-next(generated) / 1000 if mask else 0.0)
    assert output.response_mask[-1] == 1


async def test_a_conversation_is_what_the_template_renders(qwen3):
    """With its thoughts kept, Qwen3's template is append-only: each request equals the whole conversation rendered."""
    thought = "<think>\nI should ask.\n</think>\n\n"
    replies = [thought + hermes(("ask", {"q": "é?"})), thought + hermes(("ask", {"q": "2"})), thought + "Done."]
    _, model, _ = await play(qwen3, replies, ["  one\n", "two"])
    conversation = list(PROMPT)
    for prompt, question, answer in zip(model.prompts, ["é?", "2", None], ["  one\n", "two", None], strict=True):
        assert prompt == qwen3.apply_chat_template(
            conversation, tools=[ASK], add_generation_prompt=True, tokenize=True, return_dict=False
        )
        call = {"type": "function", "function": {"name": "ask", "arguments": {"q": question}}}
        conversation += [
            {"role": "assistant", "content": "", "reasoning_content": "I should ask.", "tool_calls": [call]},
            {"role": "tool", "content": answer},
        ]


@pytest.mark.parametrize("thinking", [None, False])
async def test_the_environments_tokens_are_the_templates(qwen3, thinking):
    output, _, _ = await play(qwen3, [hermes(("ask", {"q": "1"})), "Done."], ["one"], thinking=thinking)
    (_, reply), (_, answer), (_, last) = [
        (value, qwen3.decode(output.response_ids[start:stop])) for value, start, stop in spans(output.response_mask)
    ]
    assert reply == hermes(("ask", {"q": "1"})) + "<|im_end|>"
    start = "\n<|im_start|>user\n<tool_response>\none\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    assert answer == start + ("" if thinking is None else "<think>\n\n</think>\n\n")
    assert last == "Done.<|im_end|>"


async def test_ids_that_no_text_encodes_to_stay_as_they_were_sampled(tokenizer):
    """A policy may spell a word in tokens the tokenizer would not choose: training must see its own."""
    split = [token for letter in "Done." for token in tokenizer.encode(letter)] + [tokenizer.eos_token_id]
    assert tokenizer.encode("Done.") != split[:-1]
    output, _, server = await play(tokenizer, [split], [])
    assert output.response_ids == split
    assert server.requests[-1]["data"]["arguments"] == {"response": "Done."}


async def test_answers_stand_in_the_order_of_their_calls(tokenizer):
    config = trainer_config(multi_turn__max_parallel_calls=3)
    first = hermes(("ask", {"q": "a"}), ("ask", "{broken"), ("ask", {"q": "b"}))
    output, _, server = await play(tokenizer, [first, "Done."], ["A", "B"], config)
    asked = [request["data"]["arguments"].get("q") for request in server.requests[1:-1]]
    assert asked == ["a", "b"]
    shown = tokenizer.decode(output.response_ids)
    responses = [part.split("\n</tool_response>")[0] for part in shown.split("<tool_response>\n")[1:]]
    assert responses[0] == "A"
    assert "could not be read" in responses[1]
    assert responses[2] == "B"


async def test_a_reply_cut_by_the_response_length_ends_the_turn_as_it_was_cut(qwen3):
    """What a row has no tokens of must not earn its reward."""
    config = trainer_config(response_length=4)
    output, _, server = await play(qwen3, [qwen3.encode("one two three four five six")], [], config)
    assert len(output.response_ids) == 4
    assert server.requests[-1]["data"] == {
        "type": "call_tool", "tool_name": "end_turn", "arguments": {"response": "one two three four"},
    }  # fmt: skip


async def test_an_answer_that_does_not_fit_is_left_out_with_the_reply_before_it_last(tokenizer):
    call = hermes(("ask", {"q": "a"}))
    config = trainer_config(response_length=len(tokenizer.encode(call)) + 8)
    output, model, server = await play(tokenizer, [call], ["word " * 50], config)
    assert output.response_ids == model.replies[0]
    assert server.requests[-1]["data"]["arguments"] == {"response": call}


async def test_the_cap_on_assistant_turns_ends_the_turn_with_the_last_reply(tokenizer):
    config = trainer_config(multi_turn__max_assistant_turns=2)
    replies = [hermes(("ask", {"q": "1"})), hermes(("ask", {"q": "2"}), text="Once more.")]
    output, _, server = await play(tokenizer, replies, ["one"], config)
    assert [request["data"].get("tool_name") for request in server.requests[1:]] == ["ask", "end_turn"]
    assert server.requests[-1]["data"]["arguments"] == {"response": replies[1]}
    assert output.reward_score == 0.5
