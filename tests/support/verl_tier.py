"""Playing loops on verl without Ray: its own configuration, loops made as its worker makes them, a stand-in model."""

from __future__ import annotations

import asyncio
import copy
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import pyarrow.parquet as pq
import verl
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from agent_env.training.shared import Shared
from agent_env.training.verl.writer import LoopOptions, write

WORKSHOP = Path(__file__).parents[1] / "verl" / "workshop"
"""The bundle that the loop's tests are played on."""
GALLERY = WORKSHOP.with_name("gallery")
"""The bundle that pictures are seen in."""
CORRIDOR = WORKSHOP.with_name("corridor")
"""The text environment that the step loop's tests are played on."""

Reply = str | list[int] | Callable[[list[int]], Any]
"""Text (the end token is added), token ids, or what makes one of them (or an exception) of the prompt's ids."""


@functools.cache
def _defaults() -> DictConfig:
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer")


def trainer_config(**rollout: Any) -> DictConfig:
    """verl's default configuration with `rollout`'s settings; ``multi_turn.…`` is written ``multi_turn__…``."""
    config = copy.deepcopy(_defaults())
    OmegaConf.set_struct(config, False)
    lengths = {"prompt_length": 4096, "response_length": 4096, "multi_turn__max_tool_response_length": 4096}
    settings = {"name": "vllm"} | lengths | rollout
    for key, value in settings.items():
        OmegaConf.update(config.actor_rollout_ref.rollout, key.replace("__", "."), value)
    config.data.apply_chat_template_kwargs = {"enable_thinking": False}
    return config


class StandInModel:
    """verl's rollout servers as a loop sees them: scripted replies in place of a policy.

    Like vLLM under verl it stops at the end token and never goes over ``prompt_length + response_length``. The log
    probability of the n-th token it ever generated is ``-n / 1000``, so that a test can tell where each one went. Its
    prefix cache holds everything it has seen.

    Attributes:
        prompts: the token ids of every request.
        replies: the token ids of every answer.
        images: the pictures of every request.
    """

    def __init__(self, tokenizer: Any, *replies: Reply, config: DictConfig | None = None) -> None:
        self._tokenizer, self._script = tokenizer, list(replies)
        rollout = (config or trainer_config()).actor_rollout_ref.rollout
        self._budget = rollout.prompt_length + rollout.response_length
        self.prompts: list[list[int]] = []
        self.replies: list[list[int]] = []
        self.images: list[list[Any]] = []
        self.sampling_params: list[dict[str, Any]] = []
        self.generated = 0
        self._seen: list[list[int]] = []

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
        **_: Any,
    ) -> TokenOutput:
        self.prompts.append(list(prompt_ids))
        self.images.append(list(image_data or ()))
        self.sampling_params.append(dict(sampling_params))
        await asyncio.sleep(0)
        reply = self._script.pop(0)
        if callable(reply):
            reply = reply(prompt_ids)
            if asyncio.iscoroutine(reply):
                reply = await reply
        if isinstance(reply, str):
            reply = [*self._tokenizer.encode(reply, add_special_tokens=False), self._tokenizer.eos_token_id]
        token_ids = reply[: max(0, self._budget - len(prompt_ids))]
        self.replies.append(token_ids)
        log_probs = [-(self.generated + n) / 1000 for n in range(1, len(token_ids) + 1)]
        self.generated += len(token_ids)
        step = len(self.replies)
        cached = max((_common(prompt_ids, seen) for seen in self._seen), default=0)
        self._seen.append([*prompt_ids, *token_ids])
        return TokenOutput(
            token_ids=token_ids,
            log_probs=log_probs,
            extra_fields={
                "global_steps": step,
                "min_global_steps": step,
                "max_global_steps": step,
                "num_cached_tokens": cached,
            },
        )


def _common(one: list[int], other: list[int]) -> int:
    """How many tokens two sequences begin with in common."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def make_loop(
    entry: DictConfig | dict[str, Any], model: StandInModel, tokenizer: Any, config: DictConfig, processor: Any = None
) -> Any:
    """A loop made of its entry in ``agent_loop.yaml``, as verl's worker makes one.

    Args:
        processor: of a model that sees.
    """
    return hydra.utils.instantiate(
        config=entry,
        trainer_config=DictConfigWrap(config=config),
        server_manager=model,
        tokenizer=tokenizer,
        processor=processor,
        hf_model_type="qwen3" if processor is None else "qwen2_5_vl",
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([]),
    )


def hermes(*calls: tuple[str, Any], text: str = "") -> str:
    """A message with tool calls as Qwen3's template asks for them; arguments may be raw text."""
    blocks = []
    for name, arguments in calls:
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        blocks.append(f'<tool_call>\n{{"name": "{name}", "arguments": {raw}}}\n</tool_call>')
    return "\n".join(([text] if text else []) + blocks)


def qwen3_coder(name: str, **arguments: str) -> str:
    """A message with one tool call in XML."""
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def tool_responses(text: str) -> list[str]:
    """The tools' answers in a conversation rendered by Qwen3's template, or one like it."""
    return [part.split("\n</tool_response>")[0] for part in text.split("<tool_response>\n")[1:]]


def spans(mask: Sequence[int]) -> list[tuple[int, int, int]]:
    """The runs of equal values in a mask: (value, start, stop)."""
    runs: list[tuple[int, int, int]] = []
    for at, value in enumerate(mask):
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1], at + 1)
        else:
            runs.append((value, at, at + 1))
    return runs


class Written:
    """What the writer wrote of a server: rows as verl's dataset passes them to a loop, and the loop's entry.

    Args:
        shared: the server.
        out: folder to write to.
        options: of `LoopOptions`.
    """

    def __init__(self, shared: Shared, out: Path, **options: Any) -> None:
        self.out = out
        write(shared, out, loop=LoopOptions(**options))
        (self.entry,) = OmegaConf.load(out / "agent_loop.yaml")
        self._rows = {
            row["extra_info"]["task_id"]: row
            for file in sorted(out.glob("*.parquet"))
            if file.stem != "all"
            for row in pq.read_table(file).to_pylist()
        }

    def row(self, task: str) -> dict[str, Any]:
        """A task's row."""
        row = copy.deepcopy(self._rows[task])
        return {**row, "raw_prompt": row["prompt"], "tools_kwargs": {}, "index": row["extra_info"]["index"]}


@dataclass
class Rollout:
    """A rollout that was played: what the loop returned, the model's side of it, and the loop."""

    output: Any
    model: StandInModel
    loop: Any

    @property
    def info(self) -> dict[str, Any]:
        """``reward_extra_info``."""
        return self.output.extra_fields["reward_extra_info"]

    @property
    def answers(self) -> list[str]:
        """The tools' answers as the model saw them."""
        return tool_responses(self.loop.tokenizer.decode(self.output.response_ids))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """``extra_fields`` of each row, in the step layout."""
        return [row.extra_fields for row in self.output]

    def shown(self, step: int) -> str:
        """The whole prompt of a step, from 0, as text."""
        return str(self.loop.tokenizer.decode(self.model.prompts[step]))


async def rollout(
    tokenizer: Any,
    written: Written,
    task: str,
    *replies: Reply,
    config: DictConfig | None = None,
    fields: dict[str, Any] | None = None,
    processor: Any = None,
    **entry: Any,
) -> Rollout:
    """Play a task's row, with more `fields`, by scripted replies; `entry` overrides what ``agent_loop.yaml`` says."""
    config = config or trainer_config()
    model = StandInModel(tokenizer, *replies, config=config)
    loop = make_loop(OmegaConf.merge(written.entry, entry), model, tokenizer, config, processor)
    output = await loop.run({"temperature": 1.0, "logprobs": True}, **written.row(task), **(fields or {}))
    return Rollout(output, model, loop)
