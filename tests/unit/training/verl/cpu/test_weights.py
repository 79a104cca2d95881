"""Weights by name, tied ones, and LoRA adapters, against PEFT's own model."""

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.utils.save_and_load import get_peft_model_state_dict

from agent_env.errors import InputError
from agent_env.training.verl.cpu.weights import Weights
from support.small_model import small_model

IDS = torch.arange(3, 40)[None]


def logits(model):
    with torch.inference_mode():
        return model(IDS).logits


def load(model, weights, tensors, **options):
    with torch.inference_mode():
        weights.load(tensors, **{"last": True, **options})


def test_weights_in_pieces_are_all_weights():
    model, other = small_model(), small_model(seed=1)
    pieces = list(other.state_dict().items())
    weights = Weights(model)
    load(model, weights, pieces[:7], last=False)
    load(model, weights, pieces[7:])
    assert torch.equal(logits(model), logits(other))


def test_what_never_came_is_named():
    model = small_model()
    weights = Weights(model)
    pieces = [item for item in model.state_dict().items() if item[0] != "model.norm.weight"]
    with pytest.raises(InputError, match=r"model\.norm\.weight: was never sent"):
        load(model, weights, pieces)
    load(model, weights, model.state_dict().items())  # and the next time counts afresh
    with pytest.raises(InputError, match="was never sent"):
        load(model, weights, [])


def test_unknown_names_and_wrong_shapes_are_all_named():
    model = small_model()
    wrong = {**model.state_dict(), "model.norm.weight": torch.zeros(3), "surplus": torch.zeros(1)}
    with pytest.raises(InputError) as caught:
        load(model, Weights(model), wrong.items())
    assert {problem.where for problem in caught.value.problems} == {"model.norm.weight", "surplus"}


@pytest.mark.parametrize("sent", [["model.embed_tokens.weight"], ["lm_head.weight"], None])
def test_a_tied_weight_may_come_under_either_name(sent):
    model, other = small_model(), small_model(seed=1)
    for tied in (model, other):
        tied.config.tie_word_embeddings = True
        tied.tie_weights()
    state = other.state_dict()
    names = {"model.embed_tokens.weight", "lm_head.weight"}
    kept = {name: tensor for name, tensor in state.items() if name not in names or sent is None or name in sent}
    load(model, Weights(model), kept.items())
    assert torch.equal(logits(model), logits(other))


def adapted(model, seed, **options):
    """A PEFT model over a copy of `model`, its adapter random; what verl would send of it."""
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", **options)
    torch.manual_seed(seed)
    peft = get_peft_model(copy.deepcopy(model), config)
    with torch.no_grad():
        for name, parameter in peft.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.3)
    return peft, get_peft_model_state_dict(peft), config.to_dict()


@pytest.mark.parametrize("rank_stabilised", [False, True])
def test_an_adapter_acts_as_in_peft_and_the_next_one_replaces_it(rank_stabilised):
    model = small_model()
    plain = logits(model)
    weights = Weights(model)
    for seed in (1, 2):
        peft, state, config = adapted(model if seed == 1 else small_model(), seed, use_rslora=rank_stabilised)
        with torch.inference_mode():
            weights.load_adapter(state.items(), config)
        assert (logits(model) - plain).abs().max() > 0.1
        assert torch.allclose(logits(model), logits(peft), atol=1e-4)


def test_base_weights_come_under_an_adapters_names():
    """verl sends the base first, named as in a model that has the adapter's layers."""
    model, other = small_model(), small_model(seed=1)
    peft, state, config = adapted(other, 1)
    named = {
        name.replace(".weight", ".base_layer.weight") if "_proj" in name else name: tensor
        for name, tensor in other.state_dict().items()
    }
    weights = Weights(model)
    load(model, weights, named.items())
    with torch.inference_mode():
        weights.load_adapter(state.items(), config)
    assert torch.allclose(logits(model), logits(peft), atol=1e-4)


def test_an_adapter_that_does_not_fit_changes_nothing():
    model = small_model()
    before = logits(model)
    _, state, config = adapted(model, 1)
    half, broken = [name for name in state if name.endswith("lora_A.weight")][:2]
    state = {name: tensor for name, tensor in state.items() if name != half}
    state[broken] = torch.zeros(4, 3)
    with pytest.raises(InputError) as caught, torch.inference_mode():
        Weights(model).load_adapter({**state, "other": torch.zeros(1)}.items(), {**config, "use_dora": True})
    assert len(caught.value.problems) == 4
    assert torch.equal(logits(model), before)
