"""The writer against verl itself: its dataset reads the rows, and its prompts have the tokens that were counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from transformers import Qwen3Config
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from agent_env.bundle import load_bundle
from agent_env.errors import InputError
from agent_env.openenv import build_app
from agent_env.training.sessions import Shared
from agent_env.training.verl.appending import check_appending
from agent_env.training.verl.loop import AgentEnvAgentLoop
from agent_env.training.verl.models import load_tokenizer
from agent_env.training.verl.prompts import PromptCounter
from agent_env.training.verl.row import Row
from agent_env.training.verl.writer import PromptOptions, write
from support.inprocess import Running, running
from support.peers import http_peer
from support.tokenizers import save_tokenizer
from support.verl_tier import trainer_config
from unit.training.test_task_api import Serves


@pytest.fixture(scope="module")
def inbox() -> Iterator[Running]:
    with running(build_app(load_bundle("inbox"))) as server:
        yield server


@pytest.fixture(params=["qwen3", "small"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a tokenizer and its template."""
    if request.param == "small":
        return save_tokenizer(tmp_path / "model")
    return Path(request.getfixturevalue("qwen3").name_or_path)


@pytest.mark.parametrize("kwargs", [{}, {"enable_thinking": False}, {"enable_thinking": True}])
def test_a_prompt_has_the_tokens_that_verl_makes_of_it(inbox, model, kwargs, tmp_path):
    written = write(Shared(inbox.url), tmp_path / "data", prompts=PromptOptions(str(model), kwargs))
    rows = pq.read_table(tmp_path / "data" / "all.parquet").to_pylist()
    assert len(rows) == 140
    counter = PromptCounter(str(model), kwargs)
    tools = json.loads(rows[0]["extra_info"]["tools"])
    counts = counter.count([(row["prompt"], tools) for row in rows])
    builder = create_continuous_token_builder(
        counter._tokenizer, hf_model_type="qwen3" if "qwen3" in str(model) else None, chat_template_kwargs=kwargs
    )
    rendered = [len(builder.build_initial_tokens(row["prompt"], tools=tools)) for row in rows]
    assert counts == rendered
    assert written.longest_prompt == max(rendered)
    # One at a time, with nothing to share, as in a batch.
    assert counter.count([(rows[7]["prompt"], tools)]) == [rendered[7]]


def test_thinking_changes_the_count(inbox, qwen3, tmp_path):
    lengths = []
    for kwargs in ({"enable_thinking": True}, {"enable_thinking": False}):
        prompts = PromptOptions(qwen3.name_or_path, kwargs)
        lengths.append(write(Shared(inbox.url), tmp_path / "data", prompts=prompts).longest_prompt)
    # Without thinking Qwen3's template writes "<think>", two newlines, "</think>" and two newlines: four tokens.
    assert lengths[1] - lengths[0] == 4


def test_the_limit_is_exact(inbox, qwen3, tmp_path):
    model = qwen3.name_or_path
    longest = write(Shared(inbox.url), tmp_path / "data", prompts=PromptOptions(model)).longest_prompt
    assert longest is not None
    write(Shared(inbox.url), tmp_path / "data", prompts=PromptOptions(model, max_length=longest))
    with pytest.raises(InputError, match=f"has {longest} tokens with its tools"):
        write(Shared(inbox.url), tmp_path / "data", prompts=PromptOptions(model, max_length=longest - 1))


def test_verls_dataset_gives_the_loop_its_row(inbox, qwen3, tmp_path):
    write(Shared(inbox.url), tmp_path / "data")
    data = OmegaConf.merge(trainer_config().data, {"cache_dir": str(tmp_path / "cache"), "return_raw_chat": True})
    dataset = RLHFDataset(str(tmp_path / "data" / "eval.parquet"), qwen3, data)
    assert len(dataset) == 40
    item = dataset[3]
    served = load_bundle("inbox").tasks("eval")[3]
    assert item["agent_name"] == "agentenv"
    assert item["data_source"] == "agentenv/inbox"
    assert item["raw_prompt"] == [
        {"role": "system", "content": served.system_prompt},
        {"role": "user", "content": served.turns[0].prompt},
    ]
    row = Row.read(item)
    assert (row.split, row.index, row.task_id) == ("eval", 3, served.id)
    assert [tool["function"]["name"] for tool in row.tools] == ["search_emails", "read_email", "end_turn"]
    # No key of one tool's schema has leaked into another's.
    assert "null" not in item["extra_info"]["tools"]


def test_the_configuration_names_the_loop_and_its_arguments(inbox, tmp_path):
    write(Shared(inbox.url, call_timeout=7), tmp_path / "d")
    (entry,) = OmegaConf.load(tmp_path / "d" / "agent_loop.yaml")
    assert entry.name == "agentenv"
    assert entry._target_ == f"{AgentEnvAgentLoop.__module__}.{AgentEnvAgentLoop.__qualname__}"
    assert entry.call_timeout == 7


async def test_an_empty_split_is_read_with_a_full_one(tmp_path):
    served = {"train": [{"id": "a", "prompt": "p", "toolset": "h", "turns": 1}], "test": []}
    async with http_peer(Serves(served, toolset=(200, {"tools": []}))) as server:
        await asyncio.to_thread(write, Shared(server.url), tmp_path / "data")
    files = [str(tmp_path / "data" / f"{split}.parquet") for split in ("test", "train")]
    read = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))["train"]
    assert read.num_rows == 1
    assert read[0]["extra_info"]["task_id"] == "a"


@pytest.mark.parametrize("kwargs", [{}, {"enable_thinking": False}])
def test_qwen3s_own_template_appends(qwen3, tmp_path, kwargs, caplog):
    """With its family's name as without: its template cuts thoughts only before a message of the user's."""
    check_appending(qwen3, kwargs, "here")
    qwen3.save_pretrained(tmp_path)
    Qwen3Config().save_pretrained(tmp_path)
    check_appending(load_tokenizer(str(tmp_path), "here"), kwargs, "here")
    assert caplog.records == []
