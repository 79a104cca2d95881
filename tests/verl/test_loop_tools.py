"""Tool calls of a rollout: through both parsers, with the types of the tool's schema, and the model's own mistakes."""

import json

import pytest

from agent_env.training.shared import Shared
from support.servers import serving
from support.verl_tier import WORKSHOP, Written, hermes, qwen3_coder, rollout, trainer_config

CODER = {"multi_turn__format": "qwen3_coder"}
WIDE = {"multi_turn__max_parallel_calls": 4}


async def test_hermes_arguments_reach_the_tool(play):
    order = {"count": 3, "price": 2.5, "note": 'é\n"quoted"', "urgent": True, "tags": ["a"], "size": "large"}
    played = await play("one", hermes(("order", order)), "red")
    assert json.loads(played.answers[0]) == order


async def test_qwen3_coder_arguments_are_converted_by_the_typed_schema(play):
    call = qwen3_coder("order", count="3", price="2.50", note="5", urgent="true", tags='["a", "1"]', size="large")
    played = await play("one", call, "red", config=trainer_config(**CODER))
    assert json.loads(played.answers[0]) == {
        "count": 3, "price": 2.5, "note": "5", "urgent": True, "tags": ["a", "1"], "size": "large",
    }  # fmt: skip
    assert played.output.reward_score == 1.0


async def test_the_template_renders_the_full_schema(play, tokenizer):
    played = await play("one", "red")
    prompt = tokenizer.decode(played.output.prompt_ids)
    shown = [json.loads(line) for line in prompt.split("<tools>\n")[1].split("\n</tools>")[0].splitlines()]
    parameters = shown[0]["function"]["parameters"]
    assert parameters["properties"]["size"]["enum"] == ["small", "large"]
    assert parameters["properties"]["tags"]["anyOf"] == [
        {"type": "array", "items": {"type": "string"}}, {"type": "null"},
    ]  # fmt: skip
    assert [tool["function"]["name"] for tool in shown] == ["order", "write", "repeat", "fetch", "look", "nothing"]


class TestParallelCalls:
    async def test_run_one_after_another_in_their_order(self, play):
        calls = hermes(("write", {"text": "a", "seconds": 0.3}), ("write", {"text": "b"}), ("write", {"text": "c"}))
        played = await play("one", calls, "red", config=trainer_config(**WIDE))
        assert played.answers == ["a", "a b", "a b c"]

    async def test_run_up_to_verls_limit(self, play):
        calls = hermes(("write", {"text": "a"}), ("write", {"text": "b"}))
        played = await play("one", calls, hermes(("write", {"text": "c"})), "red")
        assert played.answers == ["a", "a c"]

    async def test_a_mistake_in_one_costs_no_other(self, play):
        calls = hermes(("write", {"text": "a"}), ("write", {"line": "x"}), ("wrote", {}), ("write", {"text": "b"}))
        played = await play("one", calls, "red", config=trainer_config(**WIDE))
        assert played.answers[0] == "a"
        assert "text" in played.answers[1]
        assert "line" in played.answers[1]
        assert "Unknown function 'wrote'" in played.answers[2]
        assert played.answers[3] == "a b"


class TestTheModelsMistakes:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"price": 1.0}, "count"),
            ({"count": "many", "price": 1.0}, "count"),
            ({"count": 1, "price": 1.0, "size": "huge"}, "size"),
            ({"count": 1, "price": 1.0, "colour": "red"}, "colour"),
            ([1, 2], "must be a JSON object"),
            ("3", "must be a JSON object"),
            ("null", "must be a JSON object"),
            ('"{\\"count\\": 1, \\"price\\": 1.0}"', "must be a JSON object"),
            ('{"count": 1, "price": Infinity}', "not valid JSON"),
            ('{"count": 1, "price": 1e999}', "not valid JSON"),
            ('{"count": 1, "price": 1.0, "note": "\\ud800"}', "not valid JSON"),
            ('{"count": 1, "price": 1.0', "could not be read"),
        ],
    )
    async def test_are_text_for_it_and_run_nothing(self, play, arguments, said):
        played = await play("one", hermes(("order", arguments)), hermes(("write", {"text": "end"})), "red")
        assert said in played.answers[0]
        assert played.answers[1] == "end"  # the log has no order in it
        assert played.info["attempts"] == 1

    async def test_a_number_too_large_for_the_wire_is_text_for_it(self, play):
        call = hermes(("order", '{"count": 1' + "0" * 400 + ', "price": 1.0}'))
        played = await play("one", call, hermes(("write", {"text": "end"})), "red")
        assert played.info["attempts"] == 1
        assert played.answers[1] in ("end", "order end")

    async def test_a_boolean_that_is_none_is_not_taken_for_false(self, play):
        call = qwen3_coder("order", count="1", price="1.0", urgent="maybe")
        played = await play("one", call, qwen3_coder("write", text="end"), "red", config=trainer_config(**CODER))
        assert "urgent" in played.answers[0]
        assert played.answers[1] == "end"

    async def test_a_tools_own_refusal_is_its_answer(self, play):
        played = await play("one", hermes(("nothing", {})), "red")
        assert "there is nothing" in played.answers[0]

    async def test_only_malformed_calls_do_not_end_the_turn(self, play):
        broken = '<tool_call>\n{"name": "write", "arguments": {"text": "a"}\n</tool_call>'
        played = await play("one", broken, hermes(("write", {"text": "a"})), "red")
        assert "could not be read" in played.answers[0]
        assert played.answers[1] == "a"
        assert played.output.reward_score == 1.0


class TestWarnings:
    """Each is given once in a process, so these tests take servers of their own."""

    @pytest.fixture
    def play(self, qwen3, tmp_path):
        with serving(WORKSHOP) as server:
            rows = Written(Shared(server.url), tmp_path / "data")

            async def play(*replies, **multi_turn):
                config = trainer_config(**{f"multi_turn__{key}": value for key, value in multi_turn.items()})
                return await rollout(qwen3, rows, "train-one", *replies, config=config)

            yield play

    async def test_of_a_cut_answer_come_once_a_tool(self, play, caplog):
        long = hermes(("repeat", {"text": "ab", "times": 150}))
        cut = {"max_tool_response_length": 256}
        played = await play(long, long, hermes(("write", {"text": "x" * 400})), "red", **cut)
        assert played.answers[0] == "ab" * 64 + "...(truncated)..." + "ab" * 64
        await play(long, "red", **cut)
        warnings = [text for text in caplog.messages if "max_tool_response_length" in text]
        assert len(warnings) == 2
        assert "repeat has 300 characters and verl cuts it to 256" in warnings[0]
        assert "write has 400 characters" in warnings[1]

    async def test_need_an_answer_that_is_cut(self, play, caplog):
        await play(hermes(("repeat", {"text": "ab", "times": 150})), "red", max_tool_response_length=300)
        assert "max_tool_response_length" not in caplog.text

    async def test_of_calls_that_verl_leaves_unrun(self, play, caplog):
        calls = hermes(("write", {"text": "a"}), ("write", {"text": "b"}))
        await play(calls, calls, "red", max_parallel_calls=1)
        assert sum("2 tool calls in one message and verl runs 1" in text for text in caplog.messages) == 1

    async def test_of_images_that_are_not_shown(self, play, caplog):
        played = await play(hermes(("look", {})), hermes(("look", {})), "red")
        assert played.answers == ["You see a bench."] * 2
        assert sum("answered with images, and this model is shown text alone" in text for text in caplog.messages) == 1
