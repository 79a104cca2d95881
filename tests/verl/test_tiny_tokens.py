"""The tiny tokenizer under verl's continuous tokens: what a rollout puts together is what the warm start was taught."""

import json

import pytest
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.utils import hf_tokenizer
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from agent_env import load_bundle
from agent_env.training.tiny.conversations import demonstrate, text_of, tokens_of
from agent_env.training.tiny.tokenizer import blank_tokenizer, learn_tokenizer


@pytest.fixture(scope="module", params=["gridsim", "inbox"])
def learned(request, tmp_path_factory):
    """A few plays of a built-in bundle, and the tokenizer learned from them as verl loads it."""
    bundle = load_bundle(request.param)
    plays = demonstrate(bundle, "train", times=1, error_rate=0.3, seed=0, progress=lambda what, done, total: None)[:40]
    folder = tmp_path_factory.mktemp(request.param)
    learn_tokenizer([text_of(play, blank_tokenizer()) for play in plays]).save_pretrained(folder)
    return plays, hf_tokenizer(folder)


def test_a_rollouts_tokens_are_the_ones_that_were_taught(learned):
    plays, tokenizer = learned
    builder = create_continuous_token_builder(tokenizer, hf_model_type="qwen3")
    for play, taught in zip(plays, tokens_of(plays, tokenizer), strict=True):
        messages, tools = list(play.messages), list(play.tools)
        first = next(place for place, message in enumerate(messages) if message["role"] == "assistant")
        ids = builder.build_initial_tokens(messages[:first], tools=tools)
        for place, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            start = len(ids)
            said = [token for token, mine in zip(taught.ids, taught.mask, strict=True) if mine]
            spoken = sum(taught.mask[:start])
            end = said.index(tokenizer.eos_token_id, spoken) + 1
            ids = builder.merge_assistant_tokens(ids, said[spoken:end]).token_ids
            following = messages[place + 1 :]
            answers = [m for n, m in enumerate(following) if all(x["role"] == "tool" for x in following[: n + 1])]
            if answers:
                before = messages[: place + 1]
                ids = builder.merge_context_tokens(before, [*before, *answers], ids, tools=tools).token_ids
        assert ids == list(taught.ids)


async def test_verls_parser_reads_the_calls_that_were_taught(learned):
    plays, tokenizer = learned
    parser = ToolParser.get_tool_parser("hermes", tokenizer)
    for play, taught in zip(plays, tokens_of(plays, tokenizer), strict=True):
        said = [token for token, mine in zip(taught.ids, taught.mask, strict=True) if mine]
        for message in (message for message in play.messages if message["role"] == "assistant"):
            end = said.index(tokenizer.eos_token_id) + 1
            _, calls = await parser.extract_tool_calls(said[:end])
            wanted = [call["function"] for call in message.get("tool_calls", [])]
            assert [{"name": c.name, "arguments": json.loads(c.arguments)} for c in calls] == wanted
            said = said[end:]
        assert said == []
