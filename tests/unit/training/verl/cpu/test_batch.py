"""The running batch: what is reused, what is moved, and that none of it changes a number."""

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_env.training.verl.cpu.batch import Batch, NotFinite, Row
from agent_env.training.verl.cpu.sampling import Sampling
from support.small_model import largest_difference, small_model, teacher_forced

SHARED = small_model()


@pytest.fixture
def model():
    return small_model()


def row(prompt, *, seed=0, **sampling):
    return Row(np.array(prompt), Sampling(**{"max_tokens": 6, **sampling}), Random(seed))


def finish(batch):
    """Step until nothing runs; the rows in the order in which they ended."""
    ended = []
    with torch.inference_mode():
        while batch.rows:
            done, failed = batch.step()
            assert not failed
            ended += done
    return ended


def admit(batch, *rows):
    with torch.inference_mode():
        assert batch.admit(rows) == []


def error_against(model, *rows):
    """The largest difference between reported and teacher-forced log-probabilities."""
    return max(
        largest_difference(r.log_probs, teacher_forced(model, r.prompt.tolist(), r.tokens, r.sampling.temperature))
        for r in rows
    )


def test_identical_prompts_are_computed_once(model):
    batch, prompt = Batch(model), list(range(3, 40))
    rows = [row(prompt, seed=i) for i in range(4)]
    admit(batch, *rows)
    assert [r.reused for r in rows] == [0, 36, 36, 36]  # all but the last token, which is each one's first step
    finish(batch)
    assert error_against(model, *rows) < 1e-5


def test_a_conversation_goes_on_from_where_it_was(model):
    batch, first = Batch(model), row(range(3, 30))
    admit(batch, first)
    finish(batch)
    second = row([*range(3, 30), *first.tokens, 50, 51, 52])
    admit(batch, second)
    assert second.reused == 27 + 6 - 1  # the last token drawn was never fed back
    finish(batch)
    assert error_against(model, second) < 1e-5


def test_a_common_beginning_is_reused_of_a_running_sequence_too(model):
    batch, running = Batch(model), row(range(3, 30), max_tokens=30)
    admit(batch, running)
    other = row([*range(3, 20), 60, 61], max_tokens=30)
    admit(batch, other)
    assert other.reused == 17
    finish(batch)
    assert error_against(model, running, other) < 1e-5


def test_nothing_is_reused_after_the_weights_changed(model):
    batch, running, ended = Batch(model), row(range(3, 30), max_tokens=9), row(range(40, 60), max_tokens=1)
    admit(batch, running, ended)
    with torch.inference_mode():
        batch.step()
        model.lm_head.weight.mul_(0.5)
        model.model.embed_tokens.weight.add_(0.1)
        batch.forget()
    for prompt in (range(3, 30), range(40, 60)):
        late = row(prompt)
        admit(batch, late)
        assert late.reused == 0
        while late in batch.rows:
            with torch.inference_mode():
                batch.step()
        assert error_against(model, late) < 1e-5


def test_the_sequence_that_ended_longest_ago_makes_room(model):
    batch = Batch(model, max_rows=2, kept_bytes=0)
    for start in (3, 20, 40, 60):  # two slots: each newcomer takes the older one's
        admit(batch, row(range(start, start + 15), max_tokens=1))
        finish(batch)
    reused = []
    for start in (60, 40, 20, 3):
        probe = row(range(start, start + 15), max_tokens=1)
        reused.append(batch._longest_shared(probe.prompt)[1])
    assert reused[0] == 14
    assert reused[2:] == [0, 0]


def test_a_prompt_longer_than_the_token_budget_is_computed_in_pieces(model):
    batch = Batch(model, max_prefill_tokens=16)
    rows = [row(np.random.default_rng(i).integers(0, 97, length)) for i, length in enumerate((70, 3, 33, 1))]
    admit(batch, *rows)
    finish(batch)
    assert error_against(model, *rows) < 1e-5


def test_stop_ids_wait_for_min_tokens(model):
    stops = frozenset(range(60))
    early = row(range(5, 20), stop_ids=stops, max_tokens=40)
    late = row(range(5, 20), stop_ids=stops, max_tokens=40, min_tokens=9)
    batch = Batch(model)
    admit(batch, early, late)
    finish(batch)
    assert early.stop_reason == late.stop_reason == "completed"
    assert len(early.tokens) < 9 < len(late.tokens)
    assert not stops & set(late.tokens[:9])


def test_a_row_whose_logits_are_nan_fails_alone(model):
    with torch.no_grad():
        model.model.embed_tokens.weight[13] = torch.nan
    batch = Batch(model)
    rows = [row(range(20, 30)), row([20, 21, 13, 22]), row(range(30, 50))]
    with torch.inference_mode():
        batch.admit(rows)
        _, failed = batch.step()
    assert [(r, type(error)) for r, error in failed] == [(rows[1], NotFinite)]
    assert len(finish(batch)) == 2


@pytest.mark.parametrize("poison", ["in the middle of the prompt", "last in the prompt"])
def test_a_row_the_model_raises_on_fails_alone(model, poison):
    def refuse(module, args, kwargs):
        in_the_prompt = kwargs["position_ids"] < 4  # a good row may draw token 13, and then goes on
        if ((kwargs["input_ids"] == 13) & in_the_prompt).any():
            raise MemoryError("token 13")

    hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
    bad = row([20, 13, 22, 23] if poison == "in the middle of the prompt" else [20, 22, 13])
    good = [row(range(20 + i, 40 + i), seed=i) for i in range(5)]
    batch = Batch(model)
    with torch.inference_mode():
        failed = batch.admit([*good[:2], bad, *good[2:]])
        failed += batch.step()[1]
    assert [(r, str(error)) for r, error in failed] == [(bad, "token 13")]
    assert {id(r) for r in finish(batch)} == {id(r) for r in good}
    hook.remove()
    assert error_against(model, *good) < 1e-5


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_whatever_comes_and_goes_log_probabilities_are_teacher_forced(data):
    model = SHARED
    draw_ = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    budget, kept = data.draw(st.sampled_from([1, 7, 64, 4096])), data.draw(st.sampled_from([0, 1 << 30]))
    batch = Batch(model, max_rows=6, max_prefill_tokens=budget, kept_bytes=kept)
    history, finished = [], []
    with torch.inference_mode():
        for _ in range(data.draw(st.integers(1, 8))):
            new = []
            for _ in range(data.draw(st.integers(0, 6 - len(batch.rows)))):
                beginning = history[draw_.integers(len(history))] if history and draw_.random() < 0.6 else []
                cut = beginning[: draw_.integers(len(beginning) + 1)] if draw_.random() < 0.5 else beginning
                prompt = [*cut, *draw_.integers(0, 97, draw_.integers(0 if cut else 1, 30))]
                history.append(prompt)
                heat, limit = float(draw_.choice([0.0, 0.7, 1.0])), int(draw_.integers(1, 15))
                new.append(row(prompt, seed=int(draw_.integers(1 << 30)), temperature=heat, max_tokens=limit))
            assert batch.admit(new) == []
            for _ in range(data.draw(st.integers(0, 9))):
                finished += batch.step()[0]
            if batch.rows and draw_.random() < 0.3:
                batch.drop(batch.rows[draw_.integers(len(batch.rows))])
            history += [[*r.prompt.tolist(), *r.tokens] for r in finished]
    finished += finish(batch)
    assert not finished or error_against(model, *finished) < 1e-5
