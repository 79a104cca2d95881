"""Drawing tokens: against a plain reference, over the whole unit interval, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.verl.cpu.sampling import Sampling, draw, parse_sampling

WORKED = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()  # a distribution whose top-k and top-p are done by hand below


def parse(**params):
    return parse_sampling(params, room=50, default_max_tokens=20, eos_ids=[2])


def tokens_over_the_unit_interval(logits, sampling, steps=1000):
    """How often each token is drawn by `steps` evenly spread uniform numbers."""
    rows = logits.expand(steps, -1)
    tokens, _ = draw(rows, [sampling] * steps, [(i + 0.5) / steps for i in range(steps)])
    return [tokens.count(token) for token in range(logits.shape[1])]


@pytest.mark.parametrize(
    ("sampling", "shares"),
    [
        (Sampling(1), [500, 300, 150, 50]),
        (Sampling(1, top_k=2), [625, 375, 0, 0]),
        (Sampling(1, top_k=1), [1000, 0, 0, 0]),
        (Sampling(1, top_k=9), [500, 300, 150, 50]),
        (Sampling(1, top_p=0.79), [625, 375, 0, 0]),  # 0.5 is short of 0.79, 0.5 + 0.3 is not
        (Sampling(1, top_p=0.81), [526, 316, 158, 0]),  # of 0.95: 0.526, 0.316, 0.158
        (Sampling(1, top_p=1e-9), [1000, 0, 0, 0]),  # the most likely token always stays
        (Sampling(1, top_k=2, top_p=0.6), [1000, 0, 0, 0]),  # 0.5 / 0.8 = 0.625 of what top-k leaves
        (Sampling(1, temperature=0.5), [685, 247, 61, 7]),  # squares: 0.25, 0.09, 0.0225, 0.0025 of 0.365
        (Sampling(1, temperature=0.0), [1000, 0, 0, 0]),
    ],
)
def test_each_token_is_drawn_in_its_share(sampling, shares):
    drawn = tokens_over_the_unit_interval(WORKED, sampling)
    assert all(abs(have - want) <= 1 for have, want in zip(drawn, shares, strict=True)), drawn


def test_tokens_tied_at_the_kth_value_stay():
    tied = torch.tensor([[0.4, 0.25, 0.25, 0.1]]).log()
    assert tokens_over_the_unit_interval(tied, Sampling(1, top_k=2))[3] == 0
    assert all(tokens_over_the_unit_interval(tied, Sampling(1, top_k=2))[:3])


def reference(logits, sampling, uniform):
    """One row, written out in numpy: the token and its log-probability under what it was drawn from."""
    logits = np.asarray(logits, dtype=np.float64)
    if sampling.greedy:
        logits = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        return int(logits.argmax()), logits.max()
    logits = logits / sampling.temperature
    if sampling.top_k:
        kth = np.sort(logits)[::-1][min(sampling.top_k, len(logits)) - 1]
        logits = np.where(logits < kth, -np.inf, logits)
    probs = np.exp(logits - logits.max())
    probs /= probs.sum()
    if sampling.top_p < 1:
        keep, mass = [], 0.0
        for token in np.argsort(-probs, kind="stable"):
            if mass >= sampling.top_p:
                break
            keep.append(token)
            mass += probs[token]
        probs = np.where(np.isin(np.arange(len(probs)), keep), probs, 0)
        probs /= probs.sum()
    token = int(np.searchsorted(np.cumsum(probs), uniform, side="right"))
    return token, math.log(probs[min(token, len(probs) - 1)])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_rows_with_different_parameters_draw_as_each_would_alone(data):
    vocabulary = data.draw(st.integers(2, 40))
    generator = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    rows = [
        Sampling(
            1,
            temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0, 1.7])),
            top_k=data.draw(st.integers(0, vocabulary + 3)),
            top_p=data.draw(st.sampled_from([0.1, 0.5, 0.9, 1.0])),
        )
        for _ in range(data.draw(st.integers(1, 6)))
    ]
    logits = generator.normal(scale=3, size=(len(rows), vocabulary)).astype(np.float32)
    uniforms = generator.random(len(rows)).tolist()
    tokens, log_probs = draw(torch.from_numpy(logits), rows, uniforms)
    for row, sampling, uniform, token, log_prob in zip(logits, rows, uniforms, tokens, log_probs, strict=True):
        want, want_log_prob = reference(row, sampling, uniform)
        assert token == want
        assert log_prob == pytest.approx(want_log_prob, abs=1e-5)


def test_raw_log_probabilities_are_the_models_own():
    sampling = Sampling(1, temperature=0.5, top_k=2)
    _, processed = draw(WORKED, [sampling], [0.1])
    _, raw = draw(WORKED, [sampling], [0.1], mode="raw_logprobs")
    assert processed[0] == pytest.approx(math.log(0.25 / 0.34))
    assert raw[0] == pytest.approx(math.log(0.5))


def test_a_forbidden_token_is_never_drawn():
    rows, steps = WORKED.expand(100, -1), [i / 100 for i in range(100)]
    tokens, log_probs = draw(rows, [Sampling(1)] * 100, steps, forbidden={i: {0, 3} for i in range(100)})
    assert set(tokens) == {1, 2}
    assert set(np.round(np.exp(log_probs), 6)) == {0.666667, 0.333333}


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_never_hit_a_token_of_probability_zero(uniform):
    logits = torch.tensor([[-math.inf, 0.0, 0.0, -math.inf]])
    assert draw(logits, [Sampling(1)], [uniform])[0] == [1 if uniform == 0 else 2]


def test_logits_that_are_no_numbers_show_in_their_own_row_only():
    logits = torch.stack([torch.full((4,), math.nan), WORKED[0]])
    _, log_probs = draw(logits, [Sampling(1), Sampling(1)], [0.1, 0.1])
    assert math.isnan(log_probs[0])
    assert log_probs[1] == pytest.approx(math.log(0.5))


def test_a_bias_is_added_to_its_own_rows_logits():
    logits = WORKED.expand(2, -1)
    # Doubling the last token's 0.05 makes it 0.1 of 1.05.
    tokens, log_probs = draw(logits, [Sampling(1, bias={3: math.log(2)}), Sampling(1)], [0.999, 0.999])
    assert tokens == [3, 3]
    assert log_probs == pytest.approx([math.log(0.1 / 1.05), math.log(0.05)], abs=1e-6)
    assert tokens_over_the_unit_interval(WORKED, Sampling(1, bias={0: -100.0, 2: -100.0})) == [0, 857, 0, 143]
    raw = draw(logits, [Sampling(1, bias={3: 5.0})] * 2, [0.999, 0.999], mode="raw_logprobs")[1]
    assert raw == pytest.approx([math.log(0.05)] * 2, abs=1e-6)
    assert logits[0].tolist() == WORKED[0].tolist()


def test_a_bias_as_vllm_takes_it():
    assert parse(logit_bias={7: -100, 2: 1.5}).bias == {7: -100, 2: 1.5}
    for bad in ({7: -101}, {7: "much"}, {"7": 1.0}, [7]):
        with pytest.raises(InputError, match="logit_bias"):
            parse(logit_bias=bad)


def test_verls_own_parameters_parse():
    always = {"temperature": 0.7, "top_p": 1, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
    assert parse(**always, stop_token_ids=[5]) == Sampling(20, temperature=0.7, stop_ids=frozenset({2, 5}))
    assert parse(max_new_tokens=7, ignore_eos=True, seed=3) == Sampling(7, seed=3)
    assert parse(logprobs=False).logprobs is False


def test_a_limit_is_cut_to_the_room_and_to_at_least_one_token():
    assert parse(max_tokens=80).max_tokens == 50
    assert parse(max_tokens=0).max_tokens == parse(max_tokens=-3).max_tokens == 1
    assert parse(max_tokens=4, min_tokens=9).min_tokens == 4


def test_every_bad_parameter_is_named_at_once():
    with pytest.raises(InputError) as caught:
        parse(temperature=-1, top_k=1.5, top_p=0, max_tokens="many", repetition_penalty=1.2, stop=["x"], seed="s")
    named = {problem.where for problem in caught.value.problems}
    assert named == {"temperature", "top_k", "top_p", "max_tokens", "repetition_penalty", "stop", "seed"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, True, "1"])
def test_a_temperature_that_is_no_number_is_refused(bad):
    with pytest.raises(InputError, match="temperature"):
        parse(temperature=bad)
