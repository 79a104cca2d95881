"""The rollout server as verl's clients call it, on verl's own configuration, without Ray."""

import asyncio
import contextlib
import json

import pytest
import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
from verl.workers.rollout.replica import TokenOutput

from agent_env.errors import InputError
from agent_env.training.verl.cpu.server import RolloutServer
from support.small_model import largest_difference, teacher_forced
from support.tiny_folder import tiny_folder
from support.verl_tier import trainer_config

PARAMS = {"temperature": 1.0, "top_p": 1, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
"""What verl's agent loop worker sends with every request."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def serve(folder):
    """``serve(seed=3, …)``: a server with these settings of the rollout."""
    with contextlib.ExitStack() as stack:

        def serve(replica_rank=0, **rollout):
            settings = {"name": "hf_cpu", "dtype": "float32", "prompt_length": 60, "response_length": 20} | rollout
            config = omega_conf_to_dataclass(trainer_config(**settings).actor_rollout_ref.rollout)
            model = HFModelConfig(path=str(folder), override_config={"attn_implementation": "sdpa"})
            server = RolloutServer(config, model, replica_rank)
            stack.callback(server._generator.close)
            return server

        yield serve


async def ask(server, prompt, **params):
    return await server.generate(
        prompt_ids=prompt, sampling_params={**PARAMS, **params}, request_id="r", image_data=None, video_data=None
    )


async def test_an_answer_is_verls(serve, folder):
    server = serve()
    await server.set_global_steps(4)
    answer = await ask(server, [5, 6, 7])
    assert isinstance(answer, TokenOutput)
    assert answer.extra_fields == {"global_steps": 4, "num_cached_tokens": 0}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert largest_difference(answer.log_probs, teacher_forced(model, [5, 6, 7], answer.token_ids)) < 1e-5
    assert answer.stop_reason == "completed"
    assert (await ask(server, [5, 6, 7], logprobs=False)).log_probs is None
    assert (await ask(server, [5, 6, 7])).extra_fields["num_cached_tokens"] == 2


async def test_a_response_is_as_long_as_verl_has_room_for(serve):
    server = serve(ignore_eos=True)
    assert len((await ask(server, [5] * 10)).token_ids) == 20  # response_length
    assert len((await ask(server, [5] * 75)).token_ids) == 5  # what is left of both lengths
    assert len((await ask(server, [5] * 10, max_tokens=3)).token_ids) == 3
    assert len((await ask(server, [5] * 10, max_new_tokens=4)).token_ids) == 4
    assert len((await ask(server, [5] * 78, max_tokens=9)).token_ids) == 2
    assert len((await ask(server, [5] * 10, max_tokens=-7)).token_ids) == 1  # as verl's servers do


async def test_the_models_and_the_tokenizers_end_tokens_end_a_response(serve, folder):
    server = serve()
    whole = (await ask(server, [5, 6, 7], temperature=0.7, seed=1)).token_ids
    place = next(place for place, token in enumerate(whole) if place > 2 and token not in whole[:place])
    for end in (whole[place], [whole[place], 900_000]):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
        server = serve()
        (folder / "generation_config.json").unlink()
        assert (await ask(server, [5, 6, 7], temperature=0.7, seed=1)).token_ids == whole[: place + 1]
        assert HFModelConfig(path=str(folder)).tokenizer.eos_token_id in server._generator._eos_ids
        ignoring = await ask(server, [5, 6, 7], temperature=0.7, seed=1, ignore_eos=True)
        assert ignoring.token_ids == whole


@pytest.mark.parametrize(
    ("prompt", "params", "says"),
    [
        ([5] * 80, {}, "leaves no room"),
        ([], {}, "at least one token"),
        ([5], {"top_p": 2}, "top_p"),
        ([5], {"stop": ["x"]}, "stop"),
    ],
)
async def test_a_request_that_cannot_be_answered_fails_alone(serve, prompt, params, says):
    server = serve()
    good = [asyncio.create_task(ask(server, [5, 6, i])) for i in range(7, 12)]
    with pytest.raises(InputError, match=says):
        await ask(server, prompt, **params)
    assert all(answer.token_ids for answer in await asyncio.gather(*good))


async def test_images_are_refused(serve):
    with pytest.raises(InputError, match="image_data"):
        await serve().generate(prompt_ids=[5], sampling_params=PARAMS, request_id="r", image_data=["an image"])


async def test_an_aborted_answer_holds_what_was_drawn_and_verls_client_goes_on_from_there(serve):
    server = serve(prompt_length=2000, response_length=2000, ignore_eos=True)
    running = asyncio.create_task(ask(server, [5, 6, 7]))
    while server._generator.drawn < 5:  # noqa: ASYNC110 - the other side is a thread
        await asyncio.sleep(0.005)
    assert (await server.abort_all_requests())["aborted_count"] == 1
    partial = await running
    assert partial.stop_reason == "aborted"
    assert 0 < len(partial.token_ids) < 2000
    await server.sleep()
    await server.wake_up(tags=["weights"])
    await server.wake_up(tags=["kv_cache"])
    late = asyncio.create_task(ask(server, [5, 6, 7, *partial.token_ids], max_tokens=3))
    await asyncio.sleep(0.05)
    assert not late.done()
    await server.resume_generation()
    assert len((await late).token_ids) == 3


async def test_one_at_a_time_a_seed_repeats_and_replicas_differ(serve):
    async def drawn(**options):
        server = serve(max_num_seqs=1, **options)
        return [(await ask(server, [5, 6, 7])).token_ids for _ in range(3)]

    first = await drawn(seed=3)
    assert first == await drawn(seed=3)
    assert first != await drawn(seed=4)
    assert first != await drawn(seed=3, replica_rank=1)
    assert len({tuple(tokens) for tokens in first}) > 1


async def test_options_of_its_own_are_checked(serve):
    options = {"hf_cpu": {"request_timeout": 0.05}}
    server = serve(engine_kwargs=options)
    await server.abort_all_requests()
    with pytest.raises(Exception, match="in time"):
        await ask(server, [5])
    with pytest.raises(InputError, match="timeot"):
        serve(engine_kwargs={"hf_cpu": {"timeot": 1}})
