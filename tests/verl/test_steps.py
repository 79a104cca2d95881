"""Episodes in the step layout on verl itself: prompts, actions, rows and what is reported of them."""

import math
from typing import get_type_hints

import pytest
from omegaconf import OmegaConf

from agent_env.errors import InputError, PromptTooLong
from agent_env.training.shared import Shared
from agent_env.training.traces import read_traces
from agent_env.training.verl.step_fields import StepFields
from agent_env.training.verl.steps import AgentEnvStepLoop
from support.servers import serving
from support.verl_tier import CORRIDOR, WORKSHOP, StandInModel, Written, hermes, make_loop, rollout, trainer_config

EAST, WEST = "<action>east</action>", "<action>west</action>"


@pytest.fixture(scope="module")
def corridor():
    with serving(CORRIDOR, "--max-sessions", "16") as server:
        yield server


@pytest.fixture(scope="module")
def walks(corridor, tmp_path_factory):
    """The corridor's rows in the step layout, with verl's default options and the built-in template."""
    folder = tmp_path_factory.mktemp("walks") / "data"
    return Written(Shared(corridor.url), folder, context="steps", bundle=CORRIDOR)


@pytest.fixture
def walk(tokenizer, walks):
    """Play a task of the corridor in the step layout, with the default template and the last two steps as memory."""

    async def walk(task, *replies, **options):
        plain = {"step_prompt": None, "memory": "recent(2)", "max_steps": 50}
        task = task if task.startswith("long-") else f"train-{task}"
        return await rollout(tokenizer, walks, task, *replies, **{**plain, **options})

    return walk


@pytest.fixture(scope="module")
def stepped(workshop, tmp_path_factory):
    """The workshop's rows, a tool environment's, in the step layout."""
    return Written(Shared(workshop.url), tmp_path_factory.mktemp("stepped") / "data", context="steps")


@pytest.fixture
def work(tokenizer, stepped):
    """Play a task of the workshop in the step layout."""

    async def work(task, *replies, **options):
        return await rollout(tokenizer, stepped, f"train-{task}", *replies, **options)

    return work


class TestRows:
    async def test_an_episode_is_a_row_a_step(self, walk, tokenizer):
        played = await walk("three", EAST, EAST, EAST)
        assert len(played.output) == len(played.model.prompts) == 3
        for row, prompt, reply in zip(played.output, played.model.prompts, played.model.replies, strict=True):
            assert row.prompt_ids == prompt
            assert row.response_ids == reply
            assert row.response_mask == [1] * len(reply)
            assert tokenizer.decode(row.response_ids) == f"{EAST}<|im_end|>"
        lengths = [len(reply) for reply in played.model.replies]
        assert played.output[1].response_logprobs == [-(lengths[0] + n) / 1000 for n in range(1, lengths[1] + 1)]

    async def test_every_row_has_every_field_in_its_type(self, walk):
        played = await walk("three", EAST, WEST, EAST, EAST, EAST)
        for row in played.rows:
            for name, kind in get_type_hints(StepFields).items():
                assert type(row[name]) is kind, name
        assert [row["step"] for row in played.rows] == [0, 1, 2, 3, 4]
        assert [row["last"] for row in played.rows] == [False] * 4 + [True]
        cells = ["cell 0", "cell 1", "cell 0", "cell 1", "cell 2", "cell 3"]
        assert [row["state"] for row in played.rows] == cells[:-1]
        assert [row["next_state"] for row in played.rows] == cells[1:]
        assert [row["step_reward"] for row in played.rows] == [-0.125] * 4 + [0.875]
        assert {row["episode_reward"] for row in played.rows} == {1.0}
        assert {row["success"] for row in played.rows} == {True}
        assert [row["terminated"] for row in played.rows] == [False] * 4 + [True]
        assert not any(row["truncated"] or row["bootstrap"] for row in played.rows)
        assert all(row["counts"] and row["valid"] for row in played.rows)
        assert len({row["session"] for row in played.rows}) == 1

    async def test_what_the_rollout_server_said_is_passed_on(self, walk):
        played = await walk("three", EAST, EAST, EAST)
        assert [row["min_global_steps"] for row in played.rows] == [1, 2, 3]
        assert [row["max_global_steps"] for row in played.rows] == [1, 2, 3]

    async def test_every_row_carries_the_episodes_reward_and_report(self, walk):
        played = await walk("three", EAST, EAST, EAST)
        assert {row.reward_score for row in played.output} == {1.0}
        reports = [row["reward_extra_info"] for row in played.rows]
        assert reports[0] == reports[1] == reports[2]
        assert list(reports[0]) == [
            "score/goal",
            "attempts",
            "model_seconds",
            "env_seconds",
            "steps",
            "step_rewards",
            "invalid_share",
            "success",
            "truncated",
        ]
        assert (reports[0]["steps"], reports[0]["step_rewards"]) == (3, 0.625)

    async def test_two_rollouts_have_two_sessions(self, walk, walks, tokenizer):
        one, other = await walk("one", EAST), await walk("one", EAST)
        assert one.rows[0]["session"] != other.rows[0]["session"]
        config = trainer_config()
        loop = make_loop(walks.entry, StandInModel(tokenizer, EAST, config=config), tokenizer, config)
        (row,) = await loop.run({}, **walks.row("train-one"), uid="u7", session_id=3)
        assert row.extra_fields["session"] == "u7_3"

    async def test_outputs_make_one_batch_on_verl(self, walk):
        from verl.utils.tensordict_utils import list_of_dict_to_tensordict

        played = await walk("three", EAST, "no action", EAST, EAST)
        batch = list_of_dict_to_tensordict([row.as_dict() for row in played.output])
        assert len(batch) == 4
        assert [fields["step"] for fields in batch["extra_fields"]] == [0, 1, 2, 3]
        for scores in batch["rm_scores"].unbind():
            assert scores.tolist()[-1] == 1.0


class TestActions:
    async def test_nothing_is_played_for_a_reply_without_an_action(self, walk):
        played = await walk("three", "I go east.", EAST, EAST, EAST)
        assert "Your last reply held no action" in played.shown(1)
        assert "You wake up. You are in cell 0 of 3." in played.shown(1)
        assert "Your last reply" not in played.shown(2)
        assert [row["format_valid"] for row in played.rows] == [False, True, True, True]
        assert [row["admissible"] for row in played.rows] == [True] * 4
        assert [row["valid"] for row in played.rows] == [False, True, True, True]
        assert [row["penalty"] for row in played.rows] == [0.1, 0.0, 0.0, 0.0]
        assert [row["step_reward"] for row in played.rows] == [0.0, -0.125, -0.125, 0.875]
        assert played.rows[0]["state"] == played.rows[0]["next_state"] == "cell 0"
        assert played.rows[0]["reward_extra_info"]["invalid_share"] == 0.25

    async def test_an_action_the_environment_does_not_name_is_played_and_flagged(self, walk):
        played = await walk("three", "<action>dance</action>", "<action> Wait  HERE</action>", EAST, EAST, EAST)
        assert "You did dance." in played.shown(1)
        assert [row["admissible"] for row in played.rows] == [False, True, True, True, True]
        assert all(row["format_valid"] and row["valid"] for row in played.rows)

    @pytest.mark.parametrize(
        ("invalid", "valid"),
        [("format", [False, True, True]), ("inadmissible", [True, False, True]), ("either", [False, False, True])],
    )
    async def test_what_counts_as_invalid_is_an_option(self, walk, invalid, valid):
        options = {"invalid": invalid, "invalid_penalty": 0.5}
        played = await walk("one", "hm", "<action>dance</action>", EAST, **options)
        assert [row["valid"] for row in played.rows] == valid
        assert [row["penalty"] for row in played.rows] == [0.0 if good else 0.5 for good in valid]

    async def test_where_no_actions_are_named_all_are_admissible(self, walk):
        played = await walk("unnamed", "<action>dance</action>", EAST, EAST, EAST)
        assert all(row["admissible"] for row in played.rows)
        assert "Possible actions" not in played.shown(0)

    async def test_thinking_is_no_part_of_the_action_and_no_fault(self, walk):
        thinking = f"<think>Not <action>west</action>.</think>\n{EAST}"
        played = await walk("three", thinking, f"closed by the prompt</think>{EAST}", EAST)
        assert all(row["valid"] for row in played.rows)
        assert "Not" not in played.shown(2)
        assert "closed by" not in played.shown(2)

    async def test_thoughts_are_remembered_if_asked_for(self, walk):
        played = await walk("three", f"<think>To the end!</think>{EAST}", EAST, EAST, remember_thoughts=True)
        assert "Thought: To the end!" in played.shown(1)

    async def test_the_environment_gets_each_action_once(self, walk):
        played = await walk("limited", EAST, EAST)
        assert len(played.output) == 2  # the environment counts its own steps


class TestEnds:
    async def test_an_environment_that_cuts_off_is_truncated(self, walk):
        played = await walk("limited", EAST, EAST, "never asked for")
        assert [(row["terminated"], row["truncated"]) for row in played.rows] == [(False, False), (False, True)]
        assert [row["success"] for row in played.rows] == [False, False]
        assert played.rows[-1]["reward_extra_info"]["truncated"] == 1.0
        assert all(row["counts"] and not row["bootstrap"] for row in played.rows)

    async def test_the_loop_cuts_off_after_max_steps(self, walk):
        played = await walk("three", WEST, WEST, max_steps=2)
        assert [row["truncated"] for row in played.rows] == [False, True]
        assert played.output[-1].reward_score == 0.0
        assert "Steps left: 2" in played.shown(0)
        assert "Steps left: 1" in played.shown(1)

    async def test_a_truncated_episode_can_be_bootstrapped_or_left_out(self, walk):
        played = await walk("three", WEST, WEST, max_steps=2, truncated="bootstrap")
        assert [row["bootstrap"] for row in played.rows] == [False, True]
        assert all(row["counts"] for row in played.rows)
        played = await walk("three", WEST, WEST, max_steps=2, truncated="leave_out")
        assert not any(row["counts"] or row["bootstrap"] for row in played.rows)
        played = await walk("one", EAST, max_steps=1, truncated="leave_out")  # which is over in time
        assert played.rows[0]["counts"]

    async def test_success_is_the_environments_word_or_a_full_reward(self, walk):
        assert (await walk("three", WEST, max_steps=1)).rows[0]["success"] is False
        assert (await walk("unnamed", EAST, EAST, EAST)).rows[0]["success"] is True

    async def test_an_instance_plays_once(self, walk, walks):
        played = await walk("one", EAST)
        with pytest.raises(RuntimeError, match="an instance plays one rollout"):
            await played.loop.run({}, **walks.row("train-one"))


class TestPrompts:
    async def test_a_step_shows_task_memory_and_what_is_seen(self, walk):
        played = await walk("three", EAST, EAST, EAST, memory="recent(1)")
        assert "You walk." in played.shown(0)
        assert "Walk to the east end." in played.shown(0)
        assert "You wake up. You are in cell 0 of 3." in played.shown(0)
        assert "Possible actions: east, west, wait here" in played.shown(0)
        assert "What happened before" not in played.shown(0)
        assert "Step 2\nObservation: You did east. You are in cell 1 of 3.\nAction: east" in played.shown(2)
        assert "wake up" not in played.shown(2)
        assert "<tools>" not in played.shown(0)

    async def test_the_bundles_own_template_and_memory(self, tokenizer, walks):
        played = await rollout(tokenizer, walks, "train-three", EAST, WEST, EAST, EAST, EAST)
        assert walks.entry.max_steps == 12
        assert "Walk to the east end. (step 3 of 12)" in played.shown(2)
        assert "Done: east, west" in played.shown(2)
        assert "${literally}" in played.shown(2)

    async def test_memory_gives_way_first(self, walk):
        whole = await walk("three", EAST, EAST, EAST, memory="full")
        limit = len(whole.model.prompts[2]) - 1
        assert limit > len(whole.model.prompts[1])
        played = await walk("three", EAST, EAST, EAST, memory="full", config=trainer_config(prompt_length=limit))
        assert max(map(len, played.model.prompts)) <= limit
        assert "Step 1" not in played.shown(2)
        assert "Step 2" in played.shown(2)
        assert "You did east. You are in cell 2 of 3." in played.shown(2)
        assert "left out" not in played.shown(1)

    async def test_then_the_middle_of_the_observation(self, walk, tmp_path):
        config = trainer_config(prompt_length=400)
        played = await walk("wordy", EAST, EAST, EAST, config=config, traces=str(tmp_path))
        for step, prompt in enumerate(played.model.prompts):
            assert 390 < len(prompt) <= 400
            text = played.shown(step)
            assert "characters left out ...]" in text
            assert "stone399" in text
            assert f"You are in cell {step} of 3." in text
            assert "Walk to the east end." in text
            assert "Possible actions: east, west, wait here" in text
            assert "Step 1" not in text
        (trace,) = read_traces(tmp_path)
        whole = len("You wake up. You are in cell 0 of 3. " + " ".join(f"stone{n}" for n in range(400)))
        assert 0 < trace.steps[0].observation_cut < whole
        assert f"[... {trace.steps[0].observation_cut} characters left out ...]" in trace.steps[0].prompt

    async def test_never_task_or_actions(self, walk, walks):
        with pytest.raises(
            PromptTooLong, match=r"long\[0\] \(long-endless\): step 1: .* over 300 \(rollout.prompt_length\)"
        ):
            # Nothing listens there: no session was tried.
            await walk("long-endless", config=trainer_config(prompt_length=300), url="http://127.0.0.1:9")
        small = (await walk("three", EAST, EAST, EAST, memory="none")).model.prompts[0]
        with pytest.raises(PromptTooLong, match=r"\(train-three\): step 1: without memory and observation"):
            await walk("three", EAST, config=trainer_config(prompt_length=len(small) - 12))

    async def test_a_template_that_fails_is_an_error_of_the_input(self, walk):
        with pytest.raises(InputError, match="cannot be rendered"):
            await walk("three", EAST, EAST, step_prompt="{{ observation }}{{ 1 / (steps_left - 49) }}")

    @pytest.mark.parametrize("memory", ["none", "recent(2)", "full", "summary(64)", "retrieve(2)"])
    async def test_the_prompts_of_a_long_episode(self, walk, memory):
        played = await walk("fifty", *[EAST] * 50, memory=memory, config=trainer_config(prompt_length=500))
        lengths = [len(prompt) for prompt in played.model.prompts]
        assert len(lengths) == 50
        assert max(lengths) <= 500
        if memory != "full":
            # What a step's prompt has does not grow: the tenth is as long as the last, but for digits.
            assert math.isclose(lengths[10], lengths[-1], rel_tol=0.12)


class TestBudget:
    async def test_a_step_has_its_own_tokens(self, walk):
        played = await walk("one", "east " * 100, EAST, max_step_tokens=20)
        assert len(played.output[0].response_ids) == 20
        assert played.model.sampling_params[0]["max_tokens"] == 20
        assert not played.rows[0]["format_valid"]

    async def test_never_more_than_a_row_holds(self, walk):
        config = trainer_config(response_length=30)
        played = await walk("one", "east " * 100, EAST, max_step_tokens=1000, config=config)
        assert len(played.output[0].response_ids) == len(played.output[0].response_logprobs) == 30


class TestTools:
    async def test_a_tool_environment_is_played_by_calls(self, work):
        played = await work(
            "one", hermes(("write", {"text": "hello"})), hermes(("write", {"text": "you"})), "It is red."
        )
        assert len(played.output) == 3
        assert "<tools>" in played.shown(0)
        assert "<action>" not in played.shown(0)
        assert "hello you" in played.shown(2)
        assert 'Action: write({"text": "hello"})' in played.shown(2)
        assert {row.reward_score for row in played.output} == {1.0}
        # It answers with no observation, so the last step is worth what the episode is.
        assert [row["step_reward"] for row in played.rows] == [0.0, 0.0, 1.0]
        assert [row["terminated"] for row in played.rows] == [False, False, True]
        assert played.rows[0]["success"] is True
        assert len({row["state"] for row in played.rows}) == 3
        assert played.rows[0]["next_state"] == played.rows[1]["state"]

    async def test_or_by_a_bundles_tags(self, work, tokenizer):
        tags = {"note": "write", "answer": "end_turn"}
        replies = ["<note>hello</note>", "<note>a</note><answer>b</answer>", "<think>so</think><answer>red</answer>"]
        played = await work("two", *replies, "<answer>blue</answer>", tags=tags)
        assert "<tools>" not in played.shown(0)
        assert "Write your next action as <note>...</note> or <answer>...</answer>" in played.shown(0)
        assert "Action: <note>hello</note>" in played.shown(1)
        assert "held 2 actions and none was done" in played.shown(2)
        assert "Say blue." in played.shown(3).split("What you see now")[0]
        assert [row["format_valid"] for row in played.rows] == [True, False, True, True]
        assert {row.reward_score for row in played.output} == {1.0}
        assert [row["terminated"] for row in played.rows] == [False, False, False, True]

    async def test_a_reply_ends_its_turn_and_the_next_one_opens(self, work):
        played = await work("two", "red", "blue")
        assert played.output[0].reward_score == 1.0
        assert "Say red." in played.shown(0)
        assert "Say blue." in played.shown(1).split("What you see now")[0]
        assert len(played.output) == 2

    async def test_end_turn_opens_the_next_one(self, work):
        played = await work(
            "two", hermes(("end_turn", {"response": "red"})), hermes(("end_turn", {"response": "blue"}))
        )
        assert played.output[0].reward_score == 1.0
        assert [row["terminated"] for row in played.rows] == [False, True]

    async def test_calls_after_end_turn_in_one_message_are_not_run(self, work):
        calls = hermes(("write", {"text": "a"}), ("end_turn", {"response": "red"}), ("write", {"text": "b"}))
        config = trainer_config(multi_turn__max_parallel_calls=3)
        played = await work("two", calls, hermes(("write", {"text": "c"})), "blue", config=config)
        assert "a c" in played.shown(2)
        assert played.rows[0]["admissible"] is False

    async def test_more_calls_than_are_allowed_are_not_run(self, work):
        played = await work("one", hermes(("write", {"text": "a"}), ("write", {"text": "b"})), "red")
        assert "1 more calls were not run: at most 1" in played.shown(1)

    async def test_a_call_that_cannot_be_read_is_answered(self, work):
        broken = '<tool_call>\n{"name": "write", "arguments": {"text": \n</tool_call>'
        played = await work("one", broken, "red")
        assert "This tool call could not be read" in played.shown(1)
        assert [row["format_valid"] for row in played.rows] == [False, True]

    @pytest.mark.parametrize(
        ("call", "says"),
        [
            (("wriet", {"text": "a"}), "Unknown function 'wriet'"),
            (("write", {"text": 3}), "text"),
            (("end_turn", {"response": "red"}), "Unknown function 'end_turn'"),
        ],
    )
    async def test_a_call_the_environment_refuses_is_read_and_not_admissible(self, work, call, says):
        played = await work("one", hermes(call), "red")
        assert says in played.shown(1)
        assert [(row["format_valid"], row["admissible"]) for row in played.rows] == [(True, False), (True, True)]

    @pytest.mark.parametrize("arguments", ["[]", "3"])
    async def test_arguments_that_are_no_object_are_no_form(self, work, arguments):
        played = await work("one", hermes(("write", arguments)), "red")
        assert played.rows[0]["format_valid"] is False

    async def test_turns_that_are_not_reached_are_ended_with_an_empty_reply(self, work):
        played = await work("two", "red", max_steps=1)
        assert played.output[0].reward_score == 0.5
        assert played.rows[0]["truncated"] is True


class TestImages:
    @pytest.fixture
    def rows(self, tmp_path):
        """Of a server of the test's own, of which nothing was warned yet."""
        with serving(WORKSHOP) as server:
            yield Written(Shared(server.url), tmp_path / "data", context="steps")

    async def test_that_are_not_shown_are_warned_of_once(self, qwen3, rows, caplog):
        look = hermes(("look", {}))
        played = await rollout(qwen3, rows, "train-one", look, look, "red")
        assert "You see a bench." in played.shown(1)
        assert sum("answered with images, and this model is shown text alone" in text for text in caplog.messages) == 1


class TestTraces:
    async def test_of_a_played_rollout(self, walk, tmp_path):
        played = await walk("three", EAST, "hm", EAST, EAST, traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert (trace.status, trace.reward, trace.scores) == ("ok", 1.0, {"goal": 1.0})
        assert trace.prompt_tokens == sum(map(len, played.model.prompts))
        assert trace.response_tokens == played.model.generated
        assert (trace.calls, trace.turns, trace.messages) == (3, 1, ())
        one, two, *_, last = trace.steps
        assert one.prompt in played.shown(0)
        assert (one.reply, one.action, one.reward, one.state, one.next_state) == (
            EAST,
            "east",
            -0.125,
            "cell 0",
            "cell 1",
        )
        assert one.outcome == "You did east. You are in cell 1 of 3."
        assert (two.action, two.format_valid, two.admissible, two.reward) == ("(no action)", False, True, None)
        assert (last.terminated, last.truncated) == (True, False)
        assert (last.prompt_tokens, last.response_tokens) == (
            len(played.model.prompts[3]),
            len(played.model.replies[3]),
        )

    async def test_of_a_prompt_that_does_not_fit(self, walk, tmp_path):
        with pytest.raises(PromptTooLong):
            await walk("long-endless", config=trainer_config(prompt_length=300), traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert (trace.status, trace.steps) == ("failed", ())


async def test_the_configuration_names_the_loop(walks, tokenizer):
    assert walks.row("train-one")["agent_name"] == walks.entry.name == "agentenv_steps"
    config = trainer_config()
    loop = make_loop(walks.entry, StandInModel(tokenizer, config=config), tokenizer, config)
    assert type(loop) is AgentEnvStepLoop


async def test_options_that_cannot_be_used_are_refused(walks, tokenizer):
    config = trainer_config()
    entry = OmegaConf.merge(walks.entry, {"memory": "recnt", "max_steps": 0, "invalid_penalty": -1.0})
    with pytest.raises(Exception, match=r"(?s)recnt.*max_steps.*invalid_penalty"):
        make_loop(entry, StandInModel(tokenizer, config=config), tokenizer, config)
