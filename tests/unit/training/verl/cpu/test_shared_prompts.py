import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen3Config, Qwen3ForCausalLM

from agent_env.training.verl.cpu.shared_prompts import WIDTH, packed


def rows_of(seed, sizes):
    """Rows for prompts of the sizes given, each with replies of the lengths given, in random order."""
    rng = np.random.default_rng(seed)
    rows, prompts = [], []
    for prompt, replies in sizes:
        begin = rng.integers(1, 50, prompt)
        for reply in replies:
            rows.append(np.concatenate([begin, rng.integers(1, 50, reply)]))
            prompts.append(prompt)
    order = rng.permutation(len(rows))
    return [rows[row] for row in order], [prompts[row] for row in order]


def model():
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, initializer_range=0.3, attn_implementation="sdpa",
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def losses(made, logits, rows, prompts):
    """Of each reply's tokens, of shape (rows,); and the gradient of their squares' sum."""
    told = torch.stack(
        [
            torch.nn.functional.cross_entropy(
                scores[prompt - 1 : len(row) - 1], torch.from_numpy(row[prompt:]), reduction="sum"
            )
            for scores, row, prompt in zip(logits, rows, prompts, strict=True)
        ]
    )
    return told.detach(), torch.autograd.grad(told.square().sum(), list(made.parameters()))


SIZES = [(70, [6, 6, 3, 6, 1, 5]), (70, [6] * 40), (68, [2]), (90, [7, 0, 1]), (12, [3, 3]), (150, [100, 90, 80, 200])]


def test_what_is_said_of_a_row_is_what_is_said_of_it_alone():
    rows, prompts = rows_of(3, SIZES)
    lines = packed(rows, prompts)
    assert lines is not None
    assert lines.ids.numel() < 0.5 * len(rows) * max(map(len, rows))
    made = model()
    together = made(input_ids=lines.ids, attention_mask=lines.mask, position_ids=lines.positions, use_cache=False)
    shared = losses(made, together.logits.flatten(0, 1)[lines.places].split(list(map(len, rows))), rows, prompts)
    alone = losses(made, [made(input_ids=torch.from_numpy(row)[None]).logits[0] for row in rows], rows, prompts)
    torch.testing.assert_close(shared[0], alone[0], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(shared[1], alone[1], rtol=1e-3, atol=1e-2)


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.lists(st.integers(0, 300), min_size=1, max_size=12)), min_size=1, max_size=6
    ),
    st.integers(0, 9),
)
def test_every_token_has_its_place(sizes, seed):
    rows, prompts = rows_of(seed, sizes)
    lines = packed(rows, prompts)
    if lines is None:
        return
    assert lines.ids.shape[1] == max(WIDTH, *map(len, rows))
    width = lines.ids.shape[1]
    for row, places in zip(rows, lines.places.split(list(map(len, rows))), strict=True):
        assert lines.ids.flatten()[places].tolist() == row.tolist()
        assert lines.positions.flatten()[places].tolist() == list(range(len(row)))
        # A token sees those before it in its row, itself, and nothing else.
        line, at = divmod(int(places[-1]), width)
        assert lines.mask[line, 0, at].nonzero().flatten().tolist() == (places % width).tolist()
    assert lines.mask.any(-1).all(), "a token that sees nothing is no number"


@pytest.mark.parametrize(
    ("sizes", "why"),
    [([(60, [190]), (60, [200])], "nothing is shared"), ([(20, [230, 230, 230])], "no line holds two replies")],
)
def test_what_saves_little_is_left_alone(sizes, why):
    assert packed(*rows_of(0, sizes)) is None, why
