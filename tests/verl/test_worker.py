"""verl's own worker plays the writer's rows: its dataset reads them, its registry finds the loop by the YAML."""

import shutil

import numpy as np
import pytest
from transformers import Qwen3Config
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

from support.verl_tier import StandInModel, hermes, trainer_config


@pytest.fixture(scope="module")
def model_folder(qwen3, tmp_path_factory):
    """A model's folder without weights: Qwen3's tokenizer and a configuration that says `qwen3`."""
    folder = tmp_path_factory.mktemp("model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{qwen3.name_or_path}/{name}", folder)
    Qwen3Config(
        vocab_size=len(qwen3), hidden_size=8, num_hidden_layers=1, architectures=["Qwen3ForCausalLM"]
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def config(model_folder, written):
    """verl's configuration as its user would write it for these rows."""
    config = trainer_config(prompt_length=2048, response_length=256)
    config.actor_rollout_ref.model.path = str(model_folder)
    config.actor_rollout_ref.rollout.name = "vllm"
    config.actor_rollout_ref.rollout.agent.agent_loop_config_path = str(written.out / "agent_loop.yaml")
    config.data.max_prompt_length = 2048
    config.data.return_raw_chat = True
    config.data.filter_overlong_prompts = False
    return config


@pytest.mark.filterwarnings("ignore")
async def test_a_batch_of_rows(config, written, qwen3, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    dataset = RLHFDataset(str(written.out / "train.parquet"), qwen3, config.data)
    ids = [dataset[i]["extra_info"]["task_id"] for i in range(len(dataset))]
    rows = [dataset[ids.index(f"train-{task}")] for task in ("one", "two")]
    assert rows[0]["data_source"] == "agentenv/workshop"

    def reply(prompt_ids):
        """One model for both: it says what it is asked to say, and writes first."""
        asked = qwen3.decode(prompt_ids)
        if "<tool_response>" not in asked:
            return hermes(("write", {"text": "hello"}))
        return "red"

    worker = AgentLoopWorker(config, StandInModel(qwen3, *[reply] * 4, config=config))
    batch = DataProto.from_single_dict(collate_fn(rows), meta_info={"global_steps": 1, "validate": False})
    batch.non_tensor_batch["index"] = np.arange(2)
    output = await worker.generate_sequences(batch)

    assert output.batch["responses"].shape == (2, 256)
    assert output.batch["rm_scores"].sum(dim=1).tolist() == [1.0, 0.5]
    last = output.batch["response_mask"].cumsum(dim=1).argmax(dim=1)
    assert output.batch["rm_scores"][range(2), last].tolist() == [1.0, 0.5]
    assert output.non_tensor_batch["score/word"].tolist() == [1.0, None]
    assert output.non_tensor_batch["score/first"].tolist() == [None, 1.0]
    assert output.non_tensor_batch["attempts"].tolist() == [1, 1]
    assert output.meta_info["reward_extra_keys"][:4] == ["score/word", "score/first", "score/second", "score/work"]
