"""Playing rows on verl itself: turns, replies, rewards and what is reported of them, on the workshop's server."""

import pytest
from verl.trainer.ppo.metric_utils import process_validation_metrics

from agent_env.errors import EpisodeUnscored, InputError, PromptTooLong, RolloutFailed
from agent_env.training.shared import Shared
from agent_env.training.traces import read_traces
from agent_env.training.verl.loop import AgentEnvAgentLoop
from agent_env.training.verl.prompts import PromptCounter
from support.peers import ended, first_turn, peer
from support.verl_tier import StandInModel, hermes, make_loop, spans, trainer_config

KEYS = ["score/word", "score/first", "score/second", "score/work", "attempts", "model_seconds", "env_seconds"]


async def test_a_played_row(play, tokenizer):
    played = await play("one", hermes(("write", {"text": "hello"})), "It is red.")
    output = played.output
    assert output.reward_score == 1.0
    assert played.answers == ["hello"]
    assert tokenizer.decode(output.response_ids).endswith("It is red.<|im_end|>")
    assert output.num_turns == 4  # the prompt, two messages of the model's and one answer
    assert list(played.info) == KEYS
    assert played.info["score/word"] == 1.0
    assert played.info["attempts"] == 1
    assert 0 < played.info["model_seconds"] < 60
    assert 0 < played.info["env_seconds"] < 60
    assert output.extra_fields["min_global_steps"] == 1
    assert output.extra_fields["max_global_steps"] == 2
    assert played.model.sampling_params[0]["temperature"] == 1.0


async def test_a_wrong_reply_scores_zero(play):
    played = await play("one", "It is green.")
    assert played.output.reward_score == 0.0
    assert played.info["score/word"] == 0.0


async def test_the_reply_has_no_special_tokens(play, tokenizer):
    said = [*tokenizer.encode("<|im_start|>red<|im_end|>")]
    played = await play("scored-slowly", said, config=trainer_config(response_length=64))
    assert played.info["score/work/length"] == 0.3  # "red"


async def test_env_seconds_cover_the_scoring(play):
    played = await play("scored-slowly", "Done.")
    assert played.info["env_seconds"] >= 0.5
    assert played.info["score/work/lines"] == 0.0
    assert played.info["score/work/length"] == 0.5
    assert played.info["score/work"] is None


class TestTurns:
    async def test_end_turn_opens_the_next_one(self, play):
        played = await play("two", hermes(("end_turn", {"response": "red"})), "blue")
        assert played.answers == ["Say blue."]
        assert played.output.reward_score == 1.0
        assert (played.info["score/first"], played.info["score/second"]) == (1.0, 1.0)
        assert played.info["score/word"] is None

    async def test_a_turn_never_reached_is_ended_with_an_empty_reply(self, play):
        played = await play("two", "red")
        assert played.output.reward_score == 0.5
        assert (played.info["score/first"], played.info["score/second"]) == (1.0, 0.0)

    async def test_the_end_of_the_episode_ends_the_rollout_on_the_models_tokens(self, play):
        last = hermes(("end_turn", {"response": "blue"}))
        played = await play("two", hermes(("end_turn", {"response": "red"})), last, "never asked for")
        assert played.output.reward_score == 1.0
        assert len(played.model.replies) == 2
        assert played.output.response_ids[-len(played.model.replies[1]) :] == played.model.replies[1]
        assert [value for value, _, _ in spans(played.output.response_mask)] == [1, 0, 1]
        assert played.output.num_turns == 4

    async def test_calls_after_end_turn_in_one_message_are_not_run(self, play):
        calls = hermes(("write", {"text": "a"}), ("end_turn", {"response": "red"}), ("write", {"text": "b"}))
        config = trainer_config(multi_turn__max_parallel_calls=3)
        played = await play("two", calls, hermes(("write", {"text": "c"})), "blue", config=config)
        assert played.answers[0] == "a"
        assert played.answers[1] == "Say blue."
        assert played.answers[2].startswith("write was not run")
        assert played.answers[3] == "a c"

    @pytest.mark.parametrize("arguments", [{}, {"response": 4}, {"response": "red", "more": 1}, [], "red"])
    async def test_end_turn_with_other_arguments_ends_nothing(self, play, arguments):
        played = await play("two", hermes(("end_turn", arguments)), hermes(("end_turn", {"response": "red"})), "blue")
        assert played.answers[1] == "Say blue."
        assert played.output.reward_score == 1.0

    async def test_a_task_of_one_turn_offers_no_end_turn(self, play):
        played = await play("one", hermes(("end_turn", {"response": "red"})), "red")
        assert "Unknown function 'end_turn'" in played.answers[0]
        assert played.output.reward_score == 1.0


async def test_what_the_environment_showed_at_reset_follows_the_prompt(play, tokenizer):
    played = await play("shown", "red")
    assert "user\nSay red.\n\nYou stand in a workshop.<|im_end|>" in tokenizer.decode(played.output.prompt_ids)


async def test_an_instance_plays_once(play, written):
    played = await play("one", "red")
    with pytest.raises(RuntimeError, match="an instance plays one rollout"):
        await played.loop.run({}, **written.row("train-one"))


@pytest.mark.parametrize("task", ["train-one", "val-two"])
async def test_the_configuration_names_the_loop(written, tokenizer, task):
    assert written.row(task)["agent_name"] == written.entry.name == "agentenv"
    config = trainer_config()
    loop = make_loop(written.entry, StandInModel(tokenizer, config=config), tokenizer, config)
    assert type(loop) is AgentEnvAgentLoop


@pytest.mark.parametrize("thinking", [None, False, True])
async def test_the_writers_count_is_the_prompts_length(tokenizer, written, play, thinking):
    kwargs = {} if thinking is None else {"enable_thinking": thinking}
    config = trainer_config()
    config.data.apply_chat_template_kwargs = kwargs
    played = await play("two", "red", config=config)
    row = written.row("train-two")
    counter = PromptCounter(tokenizer.name_or_path, kwargs)
    assert counter.count([(row["prompt"], played.loop.tool_schemas)]) == [len(played.output.prompt_ids)]


async def test_a_prompt_that_does_not_fit_is_refused_before_an_episode_is_opened(written, tokenizer, play):
    config = trainer_config(prompt_length=1000)
    with pytest.raises(PromptTooLong, match=r"train\[6\] \(train-long\): .* tokens .* rollout.prompt_length=1000"):
        # Nothing listens there: no session was tried.
        await play("long", "red", config=config, url="http://127.0.0.1:9")


async def test_an_unscored_episode_is_a_configuration_error(play):
    async def unscored(connection):
        await connection.recv()
        task = first_turn()
        task["data"]["observation"]["metadata"]["task"] = {}
        await connection.send(task)
        await connection.recv()
        await connection.send(ended(None))

    async with peer(unscored) as server:
        with pytest.raises(EpisodeUnscored, match="without a reward"):
            await play("one", "red", url=server.url)
        assert len(server.headers) == 1


async def test_a_row_of_another_server_is_refused(written, tokenizer, play):
    row = written.row("train-one")
    row["extra_info"]["task_id"] = "train-renamed"
    config = trainer_config()
    loop = make_loop(written.entry, StandInModel(tokenizer, config=config), tokenizer, config)
    with pytest.raises(InputError, match=r"train-renamed.*'train-one' there.*write the rows anew"):
        await loop.run({}, **row)


@pytest.mark.parametrize(
    ("extra_info", "problem"),
    [
        (None, "has no extra_info"),
        ({"split": "train", "index": 0}, "has no task_id"),
        ({"split": "train", "index": 0, "task_id": "a", "tools": "[{}]"}, "no list of tools"),
        ({"split": "train", "index": 0, "task_id": "a", "tools": "nonsense"}, "no list of tools"),
    ],
)
async def test_a_row_that_is_not_the_writers_is_refused(written, tokenizer, extra_info, problem):
    config = trainer_config()
    loop = make_loop(written.entry, StandInModel(tokenizer, config=config), tokenizer, config)
    with pytest.raises(InputError, match=problem):
        await loop.run({}, **{**written.row("train-one"), "extra_info": extra_info})


async def test_a_generation_without_tokens_is_no_rollout(play):
    with pytest.raises(RolloutFailed, match="generated no token"):
        await play("one", [])


async def test_a_row_ends_on_a_token_of_the_models(play):
    played = await play("one", hermes(("write", {"text": "a"})), [])
    assert played.output.response_ids == played.model.replies[0]
    assert played.output.response_mask == [1] * len(played.model.replies[0])
    assert len(played.output.response_logprobs) == len(played.model.replies[0])
    assert played.output.reward_score == 0.0


async def test_verls_means_leave_out_the_steps_a_task_does_not_have(play):
    """As verl's V1 trainer collects an eval of two tasks with other steps, with two rollouts each."""
    infos = [
        (await play("one", "red")).info,
        (await play("one", "green")).info,
        (await play("two", "red")).info,
        (await play("two", hermes(("end_turn", {"response": "red"})), "blue")).info,
    ]
    assert len({tuple(info) for info in infos}) == 1
    columns = {key: [info[key] for info in infos] for key in infos[0]}
    metrics = process_validation_metrics(["agentenv/workshop"] * 4, ["a", "a", "b", "b"], columns)["agentenv/workshop"]
    assert metrics["score/word"]["mean@2"] == 0.5
    assert metrics["score/first"]["mean@2"] == 1.0
    assert metrics["score/second"]["mean@2"] == 0.5
    assert metrics["attempts"]["mean@2"] == 1.0
    assert "score/work" not in metrics


async def test_our_rollout_server_is_told_a_seed_for_each_generation(play):
    async def seeds(rollout_server="hf_cpu", step=4, session=0):
        config = trainer_config(name=rollout_server, seed=7)
        replies = [hermes(("write", {"text": "a"})), hermes(("end_turn", {"response": "red"})), "blue"]
        played = await play("two", *replies, config=config, fields={"global_steps": step, "session_id": session})
        return [params.get("seed") for params in played.model.sampling_params]

    first = await seeds()
    assert first == await seeds()
    assert len({*first, *await seeds(step=5), *await seeds(session=1)}) == 9
    assert await seeds(rollout_server="vllm") == [None] * 3


class TestTraces:
    async def test_of_a_rollout_that_was_played(self, play, tmp_path):
        replies = [hermes(("write", {"text": "a"})), hermes(("end_turn", {"response": "red"})), "blue"]
        played = await play("two", *replies, traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert (trace.env, trace.split, trace.index, trace.task_id) == ("workshop", "train", 1, "train-two")
        assert (trace.status, trace.attempts, trace.errors, trace.reward) == ("ok", 1, (), 1.0)
        assert trace.seed == 0
        assert trace.scores == {"first": 1.0, "second": 1.0}
        assert [message["role"] for message in trace.messages] == [
            "system", "user", "assistant", "tool", "assistant", "tool", "assistant",
        ]  # fmt: skip
        assert trace.messages[2]["tool_calls"][0]["function"] == {"name": "write", "arguments": {"text": "a"}}
        assert trace.messages[3]["content"] == "a"
        assert trace.messages[-1] == {"role": "assistant", "content": "blue"}
        assert trace.tools == ("order", "write", "repeat", "fetch", "look", "nothing", "end_turn")
        assert (trace.turns, trace.calls) == (2, 1)
        assert trace.prompt_tokens == len(played.output.prompt_ids)
        assert trace.response_tokens == played.model.generated
        assert trace.seconds >= trace.env_seconds == played.info["env_seconds"]
        prompts, replies = played.model.prompts, played.model.replies
        assert trace.info["generations"] == [
            {"prompt_tokens": len(prompts[0]), "cached_tokens": 0},
            {"prompt_tokens": len(prompts[1]), "cached_tokens": len(prompts[0]) + len(replies[0])},
            {"prompt_tokens": len(prompts[2]), "cached_tokens": len(prompts[1]) + len(replies[1])},
        ]

    async def test_of_a_reply_that_a_cap_ended(self, play, tmp_path):
        config = trainer_config(multi_turn__max_assistant_turns=1)
        await play("one", "red", config=config, traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert trace.messages[-1] == {"role": "assistant", "content": "red"}

    async def test_of_arguments_no_json_file_may_hold(self, play, tmp_path):
        call = hermes(("order", '{"count": 1, "price": NaN, "note": "\\ud800"}'))
        played = await play("one", call, "red", traces=str(tmp_path))
        assert "not valid JSON" in played.answers[0]
        (trace,) = read_traces(tmp_path)
        assert "NaN" in trace.messages[2]["tool_calls"][0]["function"]["arguments"]

    async def test_of_a_rollout_that_failed(self, play, tmp_path):
        call = hermes(("fetch", {}))
        with pytest.raises(RolloutFailed):
            await play("lost", call, call, attempts=2, traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert (trace.status, trace.attempts, trace.reward) == ("failed", 2, None)
        assert [error.split(":")[0] for error in trace.errors] == ["EpisodeFailed", "EpisodeFailed"]
        assert trace.messages[-1]["role"] == "assistant"

    async def test_of_a_prompt_that_does_not_fit(self, play, tmp_path):
        with pytest.raises(PromptTooLong):
            await play("long", config=trainer_config(prompt_length=1000), traces=str(tmp_path))
        (trace,) = read_traces(tmp_path)
        assert trace.status == "failed"
        assert trace.errors[0].startswith("PromptTooLong: train[6]")

    async def test_a_folder_that_cannot_be_written_costs_no_rollout(self, play, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        assert (await play("one", "red", traces=str(tmp_path / "file"))).output.reward_score == 1.0
        assert "could not be written" in caplog.text


async def test_settings_that_cannot_be_used_are_refused(written, tokenizer):
    config = trainer_config()
    model = StandInModel(tokenizer, config=config)
    entry = {**written.entry, "url": "ftp://x", "call_timeout": -1}
    with pytest.raises(Exception, match=r"(?s)ftp://x.*call_timeout"):
        make_loop(entry, model, tokenizer, config)
    assert Shared(written.entry.url).url == written.entry.url
