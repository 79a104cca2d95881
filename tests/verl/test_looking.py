"""Pictures in the prompts of the CPU rollout: drawn as the model itself would have it, and cached by what they show."""

import asyncio
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from agent_env.errors import InputError
from agent_env.training.verl.cpu.generator import Generator
from agent_env.training.verl.cpu.looking import pictures_of
from agent_env.training.verl.cpu.slots import register_attention
from support.tiny_vlm import write_vlm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoModelForImageTextToText
    from verl.utils.tokenizer import hf_processor

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of transformers

TEXTS = ["<|im_start|>user\nwhere do you go\nup or down\n<|im_end|>\n<|im_start|>assistant\nup<|im_end|>\n"] * 5
SIZES = {"small": (96, 96), "wide": (160, 64), "blue": (96, 96)}


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """Processor and model."""
    torch.set_num_threads(1)
    folder = write_vlm(tmp_path_factory.mktemp("vlm"), TEXTS, spread=0.2)
    model = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation=register_attention())
    return hf_processor(folder), model.eval()


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    made = {name: rng.integers(0, 255, (height, width, 3), np.uint8) for name, (width, height) in SIZES.items()}
    return {name: Image.fromarray(pixels) for name, pixels in made.items()}


@pytest.fixture
def generator(seeing):
    _, model = seeing
    made = Generator(model, [], seed=1, max_length=512)
    yield made
    made.close()


def prompt_of(processor, *parts):
    """Token ids of texts and images in a row."""
    text = "".join(part if isinstance(part, str) else "<|vision_start|><|image_pad|><|vision_end|>" for part in parts)
    images = [part for part in parts if not isinstance(part, str)]
    made = processor(text=[text], images=images or None, return_tensors="pt")
    return made["input_ids"][0].tolist(), images


def said_by_the_model(seeing, ids, images, response):
    """Log-probabilities of a response from one forward of the model over the whole sequence."""
    processor, model = seeing
    token_ids = torch.tensor([[*ids, *response]])
    made = processor.image_processor(images=images, return_tensors="pt") if images else {}
    types = (token_ids == processor.image_token_id).long()
    with torch.inference_mode():
        model.model.rope_deltas = None
        logits = model(
            input_ids=token_ids, attention_mask=torch.ones_like(token_ids), mm_token_type_ids=types, **made
        ).logits[0, len(ids) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor(response)[:, None])[:, 0].tolist()


async def drawn(generator, processor, ids, images, **params):
    pictures = pictures_of(processor, ids, images) if images else None
    return await generator.generate(ids, {"max_tokens": 8, **params}, pictures=pictures)


async def test_log_probs_are_the_models_own_whatever_shares_the_batch(seeing, images, generator):
    processor, _ = seeing
    small, wide, blue = images.values()
    prompts = [
        prompt_of(processor, "where do you go\n", small, "up or down\n"),
        prompt_of(processor, "where do you go\n", blue, "up or down\n"),
        prompt_of(processor, "where do you go up or down\n"),
        prompt_of(processor, wide, "where", small, "do you go\n"),
        prompt_of(processor, "up\n", small),
    ]
    answers = await asyncio.gather(*(drawn(generator, processor, *prompt) for prompt in prompts * 2))
    for (ids, shown), answer in zip(prompts * 2, answers, strict=True):
        expected = said_by_the_model(seeing, ids, shown, answer.token_ids)
        assert answer.log_probs == pytest.approx(expected, abs=2e-4)


async def test_the_cache_tells_pictures_apart(seeing, images, generator):
    processor, _ = seeing
    ids, shown = prompt_of(processor, "where do you go\n", images["small"], "up or down\n")
    other, shown_other = prompt_of(processor, "where do you go\n", images["blue"], "up or down\n")
    assert ids == other
    first = await drawn(generator, processor, ids, shown)
    again = await drawn(generator, processor, ids, shown)
    assert (first.cached_tokens, again.cached_tokens) == (0, len(ids) - 1)
    # A conversation goes on behind what was drawn: nothing of it is computed again but the last token.
    longer = [*ids, *again.token_ids, *ids[:3]]
    on = await drawn(generator, processor, longer, shown)
    assert on.cached_tokens == len(ids) + len(again.token_ids) - 1
    assert on.log_probs == pytest.approx(said_by_the_model(seeing, longer, shown, on.token_ids), abs=2e-4)
    told_apart = await drawn(generator, processor, other, shown_other)
    assert told_apart.cached_tokens == ids.index(processor.image_token_id)


async def test_what_is_seen_is_part_of_the_seed(seeing, images, generator):
    processor, _ = seeing
    ids, shown = prompt_of(processor, images["small"], "where do you go\n")
    first, again = [await drawn(generator, processor, ids, shown, seed=5, max_tokens=20) for _ in range(2)]
    blue = await drawn(generator, processor, ids, [images["blue"]], seed=5, max_tokens=20)
    assert first.token_ids == again.token_ids != blue.token_ids


async def test_new_weights_look_again(seeing, images, generator):
    processor, model = seeing
    ids, shown = prompt_of(processor, images["small"], "where do you go\n")
    await drawn(generator, processor, ids, shown)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    try:
        await generator.load_weights([(name, tensor * 1.1) for name, tensor in state.items()])
        await generator.set_version(1)
        answer = await drawn(generator, processor, ids, shown)
        assert answer.cached_tokens == 0
        assert answer.log_probs == pytest.approx(said_by_the_model(seeing, ids, shown, answer.token_ids), abs=2e-4)
    finally:
        await generator.load_weights(list(state.items()))


async def test_long_prompts_are_looked_at_in_pieces(seeing, images):
    processor, model = seeing
    ids, shown = prompt_of(processor, "where", images["wide"], "do you go\n", images["small"], "up\n")
    pieces = Generator(model, [], seed=1, max_length=512, max_prefill_tokens=7)
    try:
        answer = await drawn(pieces, processor, ids, shown)
    finally:
        pieces.close()
    assert answer.log_probs == pytest.approx(said_by_the_model(seeing, ids, shown, answer.token_ids), abs=2e-4)


def test_placeholders_that_are_not_as_many_as_the_pictures_take(seeing, images):
    processor, _ = seeing
    ids, shown = prompt_of(processor, images["small"], "where\n")
    with pytest.raises(InputError, match=r"has 36 placeholders, and 2 pictures that take \[36, 40\]"):
        pictures_of(processor, ids, [*shown, images["wide"]])


async def test_tokens_that_may_not_be_drawn_are_not(seeing, generator):
    processor, _ = seeing
    ids, _ = prompt_of(processor, "where do you go\n")
    vocabulary = len(processor.tokenizer)
    bias = dict.fromkeys(range(1, vocabulary), -100.0)
    answer = await drawn(generator, processor, ids, [], logit_bias=bias)
    assert set(answer.token_ids) == {0}
    # The reported probability is that of what was drawn from: one token was left.
    assert answer.log_probs == pytest.approx([0.0] * 8, abs=1e-6)
    with pytest.raises(InputError, match="logit_bias"):
        await drawn(generator, processor, ids, [], logit_bias={3: -101.0})
