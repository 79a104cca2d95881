"""The warm start: what it writes, that it repeats, that it learns."""

import hashlib
import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agent_env import load_bundle
from agent_env.errors import InputError
from agent_env.training.step_options import StepOptions
from agent_env.training.tiny.conversations import Tokens
from agent_env.training.tiny.model import new_model
from agent_env.training.tiny.tokenizer import learn_tokenizer
from agent_env.training.tiny.warm_start import CONVERSATION, STEPS, cross_entropy, learn, shared_start, warm_start
from support.bundles import TOML, jsonl, task, write_bundle

DEMONSTRATOR = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    yield Call("add", {"amount": rng.randrange(5) if rng.random() < error_rate else 5})
    yield Reply("done")
"""


@pytest.fixture
def bundle(tmp_path):
    tasks = jsonl(*(task(f"t{number}") for number in range(10)))
    return load_bundle(
        write_bundle(tmp_path / "counter", {"demonstrator.py": DEMONSTRATOR, "tasks/train.jsonl": tasks})
    )


def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_the_same_seed_gives_the_same_files(bundle, tmp_path):
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        warm_start(bundle, tmp_path / name, steps=3, error_rate=0.5, seed=seed)
    one, same, other = (digests(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    assert one["model.safetensors"] != other["model.safetensors"]
    assert {"config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"} < set(one)


def test_the_record_beside_the_model(bundle, tmp_path):
    told = []
    made = warm_start(
        bundle, tmp_path / "out", steps=3, error_rate=0.0, seed=1, progress=lambda *step: told.append(step)
    )
    record = json.loads((tmp_path / "out" / "warm_start.json").read_text())
    assert record == vars(made)
    assert (record["bundle"], record["split"], record["steps"], record["seed"]) == ("counter", "train", 3, 1)
    assert (record["context"], record["samples"], record["demonstrated"]) == ("conversation", 50, 1.0)
    assert record["plays"] == 50  # 3 steps of 16 conversations, from 10 tasks as often as it takes
    assert record["vocabulary"] == len(AutoTokenizer.from_pretrained(tmp_path / "out"))
    assert told[-1] == ("learning", 3, 3)
    assert ("demonstrating", 50, 50) in told
    assert CONVERSATION.plays > 10 * CONVERSATION.batch


def test_it_learns_the_demonstrators_ways(bundle, tmp_path):
    made = warm_start(bundle, tmp_path / "out", steps=60, error_rate=0.0)
    assert made.loss < 0.1
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tools = [tool.openai() for tool in bundle.toolset(bundle.tasks("train")[0]).tools]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Bring the counter to 5.\n\nThe counter shows 0."}],
        tools=tools,
        tokenize=False,
        add_generation_prompt=True,
    )
    ids = tokenizer(prompt, return_tensors="pt")
    said = model.generate(**ids, do_sample=False, max_new_tokens=40)[0, ids["input_ids"].shape[1] :]
    assert tokenizer.decode(said) == '<tool_call>\n{"name": "add", "arguments": {"amount": 5}}\n</tool_call><|im_end|>'


def test_the_step_layout_is_learned_step_by_step(bundle, tmp_path):
    made = warm_start(bundle, tmp_path / "out", layout=StepOptions(memory="none"), steps=60, error_rate=0.0)
    assert (made.context, made.plays, made.samples) == ("steps", STEPS.plays, 2 * STEPS.plays)
    assert made.loss < 0.1
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tools = [tool.openai() for tool in bundle.toolset(bundle.tasks("train")[0]).tools]

    def answer(left, shown):
        content = f"Bring the counter to 5.\n\nThe counter shows {shown}.\n\nSteps left: {left}"
        messages = [{"role": "user", "content": content}]
        prompt = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, return_tensors="pt")
        said = model.generate(**ids, do_sample=False, max_new_tokens=40)[0, ids["input_ids"].shape[1] :]
        return tokenizer.decode(said)

    assert answer(50, 0) == '<tool_call>\n{"name": "add", "arguments": {"amount": 5}}\n</tool_call><|im_end|>'
    assert answer(49, 5) == "done<|im_end|>"


def test_the_same_seed_gives_the_same_files_in_the_step_layout(bundle, tmp_path):
    for name, seed in (("one", 7), ("same", 7), ("other", 8)):
        warm_start(bundle, tmp_path / name, layout=StepOptions(), steps=2, error_rate=0.5, seed=seed)
    one, same, other = (digests(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    assert one["model.safetensors"] != other["model.safetensors"]


def test_computing_the_shared_start_once_changes_nothing():
    samples = [
        Tokens((7, 8, 9, 10, 11, 12, 13), (False, False, False, False, True, False, True)),
        Tokens((7, 8, 9, 20, 21), (False, False, False, True, True)),
        Tokens((7, 8, 9, 20, 30, 31), (False, False, False, True, False, True)),
    ]
    assert shared_start(samples) == 2  # three are the same, and the last of them foretells what is said next
    model = new_model(learn_tokenizer(["x"]), seed=0)
    losses, gradients = [], []
    for shared in (0, 2):
        model.zero_grad()
        loss = cross_entropy(model, samples, shared)
        loss.backward()
        losses.append(loss.item())
        gradients.append(model.model.layers[0].self_attn.k_proj.weight.grad.clone())
    # By transformers' own loss, a sample at a time: the sum over all six tokens that are said.
    total = 0.0
    for sample in samples:
        ids = torch.tensor([sample.ids])
        labels = torch.where(torch.tensor([sample.mask]), ids, -100)
        total += model(input_ids=ids, labels=labels).loss.item() * sum(sample.mask)
    assert losses == [pytest.approx(total, abs=5e-5)] * 2
    assert torch.allclose(gradients[0], gradients[1], atol=5e-6)


def test_a_step_in_parts_is_the_step_of_the_whole_batch():
    # Parts that say different amounts: each token of the batch weighs the same all the same.
    samples = [Tokens(tuple(range(7, 11 + n)), (False,) * 3 + (True,) * (n + 1)) for n in range(16)]
    whole = new_model(learn_tokenizer(["x"]), seed=0)
    mean = cross_entropy(whole, samples, 0) / sum(n + 1 for n in range(16))
    mean.backward()
    torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
    model = new_model(learn_tokenizer(["x"]), seed=0)
    told = []
    (loss,) = learn(model, samples, steps=1, batch=16, peak=1e-3, seed=0, progress=lambda *step: told.append(step))
    assert loss == pytest.approx(mean.item(), abs=1e-5)
    assert told == [("learning", 1, 1)]
    for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)


def test_a_conversation_that_is_too_long_names_its_task(tmp_path):
    long = task("wordy", system_prompt=" ".join(["7"] * 5000))
    bundle = load_bundle(
        write_bundle(
            tmp_path / "counter",
            {"demonstrator.py": DEMONSTRATOR, "tasks/train.jsonl": jsonl(task("short"), long), "bundle.toml": TOML},
        )
    )
    with pytest.raises(InputError, match=r"task 'wordy' is played in \d+ tokens, and the tiny model reads 4096"):
        warm_start(bundle, tmp_path / "out", steps=1)
    assert not (tmp_path / "out").exists()
