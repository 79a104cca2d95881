"""Requests from any number of callers: their numbers, their failures, pauses, deadlines and seeds."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from agent_env.errors import InputError
from agent_env.training.verl.cpu.batch import NotFinite
from agent_env.training.verl.cpu.generator import (
    Generator,
    GeneratorClosed,
    GeneratorFull,
    RequestTimedOut,
)
from support.small_model import VOCABULARY, largest_difference, small_model, teacher_forced

EOS = 2
MODEL = small_model()
ENDLESS = {"max_tokens": 100_000, "ignore_eos": True}
"""Far more than a test waits for: such a request runs until it is stopped."""


@contextmanager
def generator(model: torch.nn.Module = MODEL, **options) -> Iterator[Generator]:
    serving = Generator(model, [EOS], **options)
    try:
        yield serving
    finally:
        serving.close()


def prompts(count, seed=0):
    numbers = random.Random(seed)
    return [[numbers.randrange(3, VOCABULARY) for _ in range(numbers.randrange(1, 60))] for _ in range(count)]


@contextmanager
def long_model():
    """A model whose context is so long that an endless request doesn't end by itself."""
    limit, MODEL.config.max_position_embeddings = MODEL.config.max_position_embeddings, 1 << 20
    try:
        yield MODEL
    finally:
        MODEL.config.max_position_embeddings = limit


@pytest.mark.parametrize("attention", [None, "sdpa", "eager"])
async def test_staggered_requests_of_mixed_lengths_have_teacher_forced_log_probabilities(attention):
    numbers = random.Random(1)
    model = small_model(attention=attention)
    asked = [
        (prompt, {"temperature": numbers.choice([0.5, 1.0, 1.3]), "max_tokens": numbers.randrange(1, 40)})
        for prompt in [*prompts(16), *prompts(4), [*prompts(1)[0][:9], 5, 6, 7]]
    ]

    async def ask(serving, prompt, params):
        await asyncio.sleep(numbers.random() * 0.05)
        return await serving.generate(prompt, params)

    with generator(model) as serving:
        answers = await asyncio.gather(*(ask(serving, *one) for one in asked))
    for (prompt, params), answer in zip(asked, answers, strict=True):
        forced = teacher_forced(model, prompt, answer.token_ids, params["temperature"])
        assert largest_difference(answer.log_probs, forced) < 1e-5
        assert answer.stop_reason == ("completed" if answer.token_ids[-1] == EOS else "length")
        assert len(answer.token_ids) == params["max_tokens"] or answer.stop_reason == "completed"
    assert sum(answer.cached_tokens > 0 for answer in answers) >= 4


async def test_restricted_sampling_reports_what_it_drew_from():
    params = {"top_k": 5, "top_p": 0.8, "temperature": 0.9, "max_tokens": 25}
    with generator() as serving:
        answers = await asyncio.gather(*(serving.generate(prompt, params) for prompt in prompts(6)))
    for prompt, answer in zip(prompts(6), answers, strict=True):
        with torch.inference_mode():
            logits = MODEL(torch.tensor([prompt + answer.token_ids])).logits[0, len(prompt) - 1 : -1] / 0.9
        for row, token, log_prob in zip(logits, answer.token_ids, answer.log_probs, strict=True):
            top = row.topk(5)
            probs = top.values.softmax(-1)
            size = int((probs.cumsum(-1) < 0.8).sum()) + 1
            place = top.indices.tolist().index(token)
            assert place < size
            assert log_prob == pytest.approx((probs[place] / probs[:size].sum()).log().item(), abs=1e-5)


async def test_greedy_is_what_transformers_generates():
    prompt = prompts(1)[0]
    with generator() as serving:
        answer = await serving.generate(prompt, {"temperature": 0, "max_tokens": 30})
    with torch.inference_mode():
        options = {"max_new_tokens": 30, "do_sample": False, "eos_token_id": EOS, "pad_token_id": 0}
        whole = MODEL.generate(torch.tensor([prompt]), **options)
    assert answer.token_ids == whole[0, len(prompt) :].tolist()


async def drawn(order, **options):
    """The answers' tokens by prompt, each prompt's sorted: which of two equal requests came first says nothing."""
    found = {}
    with generator(**options) as serving:
        answers = await asyncio.gather(*(serving.generate(prompt, {"max_tokens": 20}) for prompt in order))
    for prompt, answer in zip(order, answers, strict=True):
        found.setdefault(tuple(prompt), []).append(answer.token_ids)
    return {prompt: sorted(tokens) for prompt, tokens in found.items()}


async def test_sampling_depends_on_the_prompt_and_the_seed_not_on_order_or_company():
    order = [prompt for prompt in prompts(6) for _ in range(3)]
    first = await drawn(order, seed=7)
    assert all(len({tuple(tokens) for tokens in group}) > 1 for group in first.values())
    assert await drawn(random.Random(3).sample(order, len(order)), seed=7) == first
    assert await drawn(order, seed=7, max_rows=1) == first
    assert await drawn(order, seed=8) != first


async def test_a_request_may_bring_its_own_seed():
    prompt = prompts(1)[0]
    with generator() as serving:
        answers = [await serving.generate(prompt, {"max_tokens": 20, "seed": seed}) for seed in (5, 5, 6)]
    assert answers[0].token_ids == answers[1].token_ids != answers[2].token_ids


async def test_the_rest_of_an_aborted_answer_is_not_drawn_by_the_numbers_of_its_beginning():
    with generator(small_model(layers=1)) as serving:
        sampling = {"max_tokens": 12, "seed": 5, "temperature": 1e6}  # any token, whatever comes before
        whole = await serving.generate([5, 6, 7], sampling)
        rest = await serving.generate([5, 6, 7, *whole.token_ids], sampling)
    assert rest.token_ids != whole.token_ids


async def test_one_at_a_time_the_last_bit_repeats_in_any_order():
    start, ends = prompts(1)[0], prompts(8, seed=1)
    order = [[*start, *end] for end in ends]

    async def answers(order):
        with generator(max_rows=1) as serving:
            found = [await serving.generate(prompt, {"max_tokens": 20, "seed": 3}) for prompt in order]
        return {tuple(prompt): answer for prompt, answer in zip(order, found, strict=True)}

    first, second = await answers(order), await answers(order[::-1])
    assert {prompt: answer.log_probs for prompt, answer in first.items()} == {
        prompt: answer.log_probs for prompt, answer in second.items()
    }
    assert {answer.cached_tokens for answer in first.values()} == {0}


async def test_every_weights_version_samples_afresh_and_alike():
    prompt, answers = prompts(1)[0], []
    with generator() as serving:
        for version in (1, 2, 1):
            await serving.set_version(version)
            answers.append([await serving.generate(prompt, {"max_tokens": 20}) for _ in range(2)])
    assert [[a.version for a in pair] for pair in answers] == [[1, 1], [2, 2], [1, 1]]
    tokens = [[a.token_ids for a in pair] for pair in answers]
    assert tokens[0] == tokens[2] != tokens[1]


BAD = {
    "empty": ([], {}),
    "too long": ([5] * 512, {}),
    "no token of the model's": ([5, VOCABULARY], {}),
    "negative": ([5, -1], {}),
    "text": ("hello", {}),
    "a bad parameter": ([5, 6], {"top_p": 7}),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_request_that_is_refused_is_refused_alone(what):
    bad, params = BAD[what]
    good = prompts(3)
    with generator() as serving:
        running = [asyncio.create_task(serving.generate(prompt, {"max_tokens": 30})) for prompt in good]
        with pytest.raises(InputError):
            await serving.generate(bad, params)
        answers = await asyncio.gather(*running)
    assert all(answer.token_ids for answer in answers)


async def test_a_poisoned_request_among_good_ones_fails_alone():
    model = small_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[13] = torch.nan
    asked = [[20, 21, 22], [20, 13, 22], [30, 31]]
    with generator(model) as serving:
        params = {"max_tokens": 1}
        answers = await asyncio.gather(*(serving.generate(p, params) for p in asked), return_exceptions=True)
    assert [type(answer) for answer in answers[1:2]] == [NotFinite]
    assert len(answers[0].token_ids) == len(answers[2].token_ids) == 1


async def started(serving: Generator, count: int) -> list[asyncio.Task]:
    """`count` endless requests, all of which have drawn a token."""
    tasks = [asyncio.create_task(serving.generate([5, 6, 7 + i], ENDLESS)) for i in range(count)]
    while serving.running + serving.waiting < count:  # noqa: ASYNC110 - the other side is a thread
        await asyncio.sleep(0.005)
    before = serving.drawn
    while serving.drawn < before + 2 * count:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    return tasks


async def test_abort_answers_with_what_was_drawn_and_resume_goes_on():
    with long_model() as model, generator(model, max_rows=2) as serving:
        tasks = await started(serving, 3)
        assert await serving.abort_all() == 3
        answers = await asyncio.gather(*tasks)
        assert [answer.stop_reason for answer in answers] == ["aborted"] * 3
        lengths = [len(answer.token_ids) for answer in answers]
        assert lengths[0] > 0
        assert lengths[1] > 0
        assert lengths[2] == 0  # it was waiting for a row
        for prompt, answer in zip(([5, 6, 7], [5, 6, 8]), answers, strict=False):
            assert largest_difference(answer.log_probs, teacher_forced(model, prompt, answer.token_ids)) < 1e-4
        later = asyncio.create_task(serving.generate([5, 6], {"max_tokens": 3, "ignore_eos": True}))
        await asyncio.sleep(0.1)
        assert not later.done()  # paused
        await serving.resume()
        assert len((await later).token_ids) == 3


async def test_a_paused_generator_may_reject_instead_of_keeping_waiting():
    with generator() as serving:
        await serving.abort_all(reject=True)
        answer = await serving.generate([5, 6])
        assert (answer.stop_reason, answer.token_ids) == ("aborted", [])
        await serving.resume()
        assert (await serving.generate([5, 6], {"max_tokens": 1})).token_ids


async def test_aborts_from_many_tasks_and_threads_lose_no_request():
    numbers = random.Random(0)
    with generator(max_rows=4) as serving:

        async def meddle():
            for _ in range(20):
                await serving.abort_all()
                await asyncio.sleep(numbers.random() * 0.01)
                await serving.resume()

        async def ask(prompt):
            tokens = []
            while True:  # as verl's async client does: go on from what an aborted answer holds
                params = {"max_tokens": 25 - len(tokens), "ignore_eos": True}
                answer = await serving.generate([*prompt, *tokens], params)
                tokens += answer.token_ids
                if answer.stop_reason != "aborted":
                    return tokens

        thread = threading.Thread(target=lambda: asyncio.run(meddle()))
        thread.start()
        answers = await asyncio.wait_for(asyncio.gather(meddle(), *(ask(prompt) for prompt in prompts(12))), 60)
        thread.join()
    assert all(len(tokens) == 25 for tokens in answers[1:])


async def test_no_request_outlives_its_deadline():
    with long_model() as model, generator(model, max_rows=1) as serving:
        running = (await started(serving, 1))[0]
        with pytest.raises(RequestTimedOut, match="waiting for a row"):
            await serving.generate([5], timeout=0.05)
        running.cancel()
        with pytest.raises(RequestTimedOut, match="tokens"):
            await serving.generate([5, 6], ENDLESS, timeout=0.3)
        assert len((await serving.generate([5], {"max_tokens": 2, "ignore_eos": True})).token_ids) == 2
        await serving.abort_all()
        with pytest.raises(RequestTimedOut):
            await serving.generate([5], timeout=0.05)


async def test_a_caller_that_goes_away_frees_its_row():
    with long_model() as model, generator(model, max_rows=1) as serving:
        for task in await started(serving, 1):
            task.cancel()
        assert (await asyncio.wait_for(serving.generate([5], {"max_tokens": 1}), 30)).token_ids
        assert serving.running == 0


async def test_more_requests_than_may_wait_are_refused():
    with long_model() as model, generator(model, max_rows=1, max_waiting=2) as serving:
        (running,) = await started(serving, 1)
        waiting = [asyncio.create_task(serving.generate([5], {"max_tokens": 1})) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(GeneratorFull):
            await serving.generate([5])
        running.cancel()
        assert all(answer.token_ids for answer in await asyncio.gather(*waiting))


async def test_closing_fails_what_runs_and_what_comes():
    with long_model() as model:
        serving = Generator(model, [EOS])
        (running,) = await started(serving, 1)
        serving.close()
        serving.close()
        with pytest.raises(GeneratorClosed):
            await running
        with pytest.raises(GeneratorClosed):
            await serving.generate([5])


async def test_new_weights_draw_what_their_own_generator_draws():
    other = small_model(seed=1)
    prompt = prompts(1)[0]
    served = small_model()
    with generator(other) as own, generator(served) as serving:
        await own.set_version(3)
        await serving.generate(prompt, {"max_tokens": 5})
        await serving.load_weights(other.state_dict().items())
        await serving.set_version(3)
        want, got = [await g.generate(prompt, {"max_tokens": 20}) for g in (own, serving)]
    assert got == want


async def test_models_with_other_caches_are_refused():
    MODEL.config.layer_types = ["full_attention", "sliding_attention"]
    try:
        with pytest.raises(ValueError, match="sliding_attention"):
            Generator(MODEL, [EOS])
    finally:
        MODEL.config.layer_types = ["full_attention"] * 2
