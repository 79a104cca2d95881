"""The installed verl still has what the loop leans on (see the docstring of `AgentEnvAgentLoop`)."""

import re
from pathlib import Path

import pytest
import verl
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, AgentLoopWorker
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.agent_loop.tool_agent_loop import AgentData, AgentState, ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from verl.utils.tokenizer.continuous_token import QwenVLContinuousTokenBuilder
from verl.workers.rollout.replica import TokenOutput

from agent_env.training.verl.loop import AgentEnvAgentLoop
from agent_env.training.verl.steps import AgentEnvStepLoop
from support.installed import parameters, source


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_handle_generating_state", ["self", "agent_data", "sampling_params", "ignore_termination"]),
        ("_handle_processing_tools_state", ["self", "agent_data"]),
        ("_call_tool", ["self", "tool_call", "tools_kwargs", "agent_data"]),
        ("_cap_text_prompt_length", ["self", "prompt_ids"]),
    ],
)
def test_an_overridden_method_is_called_as_verl_calls_its_own(name, expected):
    assert parameters(getattr(ToolAgentLoop, name)) == expected
    assert parameters(getattr(AgentEnvAgentLoop, name)) == expected


def test_run_drives_the_overridden_states():
    text = source(ToolAgentLoop.run)
    assert 'kwargs["raw_prompt"]' in text
    for call in ("_handle_pending_state", "_handle_generating_state", "_handle_processing_tools_state"):
        assert f"self.{call}(" in text
    assert "self._call_tool(" in source(ToolAgentLoop._handle_processing_tools_state)
    assert "self._cap_text_prompt_length(prompt_ids)" in source(AgentLoopBase.ct_build_initial_tokens)
    assert {state.name for state in AgentState} >= {"GENERATING", "PROCESSING_TOOLS", "TERMINATED"}


def test_the_loops_tools_are_read_when_it_runs():
    assert "self.tools" in source(ToolAgentLoop.run)
    assert "self.tool_schemas" in source(ToolAgentLoop.run)
    assert "self.tool_parser.extract_tool_calls(" in source(ToolAgentLoop._handle_generating_state)
    text = source(ToolAgentLoop.__init__)
    limits = ("max_tool_response_length", "max_parallel_calls", "prompt_length", "response_length")
    for attribute in ("tool_parser", "tool_parser_name", *limits):
        assert re.search(rf"self\.{attribute} = ", text)
    assert "agent_data.tool_calls[: self.max_parallel_calls]" in source(ToolAgentLoop._handle_processing_tools_state)
    for attribute in ("tokenizer", "rollout_config", "server_manager"):
        assert re.search(rf"self\.{attribute} = ", source(AgentLoopBase.__init__))


def test_a_tool_is_created_executed_and_read_by_its_typed_schema():
    text = source(ToolAgentLoop._call_tool)
    assert "await tool.create(create_kwargs=" in text
    assert "await tool.execute(\n                    instance_id, tool_args, agent_data=agent_data" in text
    assert "if tool and instance_id and" in text
    assert ToolResponse(text="a").text == "a"
    assert {"type", "function"} <= set(OpenAIFunctionToolSchema.model_fields)


def test_the_rollouts_state_has_the_lists_the_loop_restores():
    data = AgentData([], [], [], None, None, {}, "id", {})
    for name in ("prompt_ids", "response_ids", "response_mask", "response_logprobs", "messages"):
        assert getattr(data, name) == []
    assert data.tool_calls == []
    assert (data.user_turns, data.assistant_turns) == (0, 0)


def test_outputs_and_calls_have_the_fields_the_loop_sets():
    fields = {"prompt_ids", "response_ids", "response_mask", "response_logprobs", "reward_score", "extra_fields"}
    assert fields <= set(AgentLoopOutput.model_fields)
    assert {"name", "arguments"} <= set(FunctionCall.model_fields)
    assert {"token_ids", "log_probs", "extra_fields"} <= set(TokenOutput.model_fields)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_a_parser_names_its_blocks(qwen3, name):
    parser = ToolParser.get_tool_parser(name, qwen3)
    assert parser.tool_call_start_token == "<tool_call>"
    assert parser.tool_call_end_token == "</tool_call>"
    assert parser.tool_call_regex.search("a <tool_call>b</tool_call>").group(0) == "<tool_call>b</tool_call>"
    assert parameters(parser.extract_tool_calls) == ["self", "responses_ids", "tools"]


class TestPictures:
    """What both loops lean on where there are pictures."""

    def test_the_first_prompts_are_asked_for_and_given_to_the_builder(self):
        text = source(ToolAgentLoop.run)
        assert "await self.process_multi_modal_info(messages)" in text
        assert 'multi_modal_data["images"] = agent_data.image_data' in text
        assert "images=agent_data.image_data" in source(ToolAgentLoop._handle_pending_state)
        assert parameters(AgentLoopBase.process_multi_modal_info) == ["self", "messages"]
        assert parameters(AgentLoopBase.ct_build_initial_tokens)[:4] == ["self", "messages", "tools", "images"]

    def test_an_answers_are_appended_in_place_and_sent_with_the_next_prompt(self):
        text = source(ToolAgentLoop._handle_processing_tools_state)
        assert 'content.append({"type": "image", "image": img})' in text
        assert "agent_data.image_data.append(img)" in text
        assert "image_data=agent_data.image_data" in source(ToolAgentLoop._handle_generating_state)
        assert ToolResponse(text="a", image=[1]).image == [1]

    def test_a_builder_renders_a_prompt_with_pictures(self):
        expected = {"messages", "tools", "images", "videos", "audios", "mm_inputs_out"}
        assert expected < set(parameters(QwenVLContinuousTokenBuilder.build_initial_tokens))
        assert "self.continuous_token_builder.build_initial_tokens(" in source(AgentLoopBase.ct_build_initial_tokens)

    def test_a_row_is_made_features_of_by_its_images_and_its_text(self):
        text = source(AgentLoopWorker._compute_multi_modal_inputs)
        assert 'multi_modal_data.get("images")' in text
        assert "self.tokenizer.decode(collapsed_ids, skip_special_tokens=True)" in text
        assert "multi_modal_data" in AgentLoopOutput.model_fields

    def test_vllm_is_told_of_pictures_and_of_sampling_as_it_is_given(self):
        server = Path(verl.__file__).parent / "workers" / "rollout" / "vllm_rollout" / "vllm_async_server.py"
        text = server.read_text()
        assert "SamplingParams(max_tokens=max_tokens, **sampling_params)" in text
        assert 'multi_modal_data["image"] = image_data' in text
        assert "qwen2_5_vl_dedup_image_tokens(prompt_ids, self.model_config.processor)" in text


class TestStepLoop:
    """What `AgentEnvStepLoop` leans on."""

    def test_a_prompt_is_built_and_capped_where_the_loop_does_it(self):
        assert parameters(AgentLoopBase.ct_build_initial_tokens)[:3] == ["self", "messages", "tools"]
        assert parameters(AgentEnvStepLoop._cap_text_prompt_length) == parameters(AgentLoopBase._cap_text_prompt_length)

    def test_a_generation_is_asked_for_as_verls_loop_does(self):
        text = source(SingleTurnAgentLoop.run)
        for keyword in ("request_id=request_id", "prompt_ids=prompt_ids", "sampling_params=sampling_params"):
            assert keyword in text
        server = Path(verl.__file__).parent / "workers" / "rollout" / "vllm_rollout" / "vllm_async_server.py"
        assert 'max_tokens = sampling_params.pop("max_tokens")' in server.read_text()

    def test_a_list_of_outputs_is_a_row_each_with_the_last_ones_reward(self):
        text = (Path(verl.__file__).parent / "trainer" / "ppo" / "v1" / "agent_loop_tq.py").read_text()
        assert "outputs = output if isinstance(output, list) else [output]" in text
        assert 'output.extra_fields["reward_extra_info"] = final_output.extra_fields["reward_extra_info"]' in text
        assert 'keys.append(f"{uid}_{session_id}_{i}")' in text
