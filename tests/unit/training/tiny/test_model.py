"""The model: its shape, what it stops at, its seed, and the code its numbers start from."""

import pytest
import torch

from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.tokenizer import learn_tokenizer

TOKENIZER = learn_tokenizer(["one 1 two 2"] * 5)


def test_the_shape():
    model = new_model(TOKENIZER, seed=0)
    config = model.config
    assert (config.model_type, config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (
        "qwen3",
        3,
        128,
        384,
    )
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 32)
    assert config.vocab_size == len(TOKENIZER) == model.get_input_embeddings().weight.shape[0]
    assert model.lm_head.weight is model.get_input_embeddings().weight
    # A layer: q, o 128·128 each, k, v 128·64 each, MLP 3·128·384, two norms of 128 and two of 32; one more norm of 128.
    layer = 2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 384 + 2 * 128 + 2 * 32
    assert sum(weights.numel() for weights in model.parameters()) == 3 * layer + 128 + 128 * len(TOKENIZER)
    assert model.dtype == torch.float32


def test_what_it_stops_at():
    model = new_model(TOKENIZER, seed=0)
    for config in (model.config, model.generation_config):
        assert config.eos_token_id == TOKENIZER.convert_tokens_to_ids("<|im_end|>")
        assert config.pad_token_id == TOKENIZER.convert_tokens_to_ids("<|endoftext|>")
        assert config.bos_token_id is None


def test_a_seed_makes_the_weights_and_leaves_torchs_own_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (new_model(TOKENIZER, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["model.layers.0.mlp.up_proj.weight"], other["model.layers.0.mlp.up_proj.weight"])


def test_close_numbers_start_close():
    embeddings = new_model(TOKENIZER, seed=0).get_input_embeddings().weight

    def likeness(one, other):
        ids = [TOKENIZER.encode(text) for text in (one, other)]
        assert [len(i) for i in ids] == [1, 1]
        return torch.cosine_similarity(embeddings[ids[0][0]], embeddings[ids[1][0]], dim=0).item()

    assert likeness("7", " 7") > 0.999
    assert likeness(" 7", " 8") > likeness(" 7", " 10") > likeness(" 7", " 40")
    assert likeness(" -1", " 1") > likeness(" -1", " 6")
    other = embeddings[TOKENIZER.encode("one")[0]]
    assert embeddings[TOKENIZER.encode(" 7")[0]].norm().item() == pytest.approx(other.norm().item(), rel=0.2)
