"""Plays a split with a model in this process, by the loop that trains it: no Ray, no trainer, no training.

Rows and loop are the writer's, tokens are drawn by the CPU's rollout server, and verl's configuration says how long a
conversation may be. So a figure from here and one from an eval of a training run differ by sampling alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import pyarrow.parquet
import yaml
from omegaconf import DictConfig
from transformers import AutoConfig, AutoTokenizer
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap, ToolListWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from agent_env.errors import InputError, Problem, RolloutFailed
from agent_env.tokens import NO_TOKEN, TokenSource
from agent_env.training.report import Mean
from agent_env.training.running import run
from agent_env.training.shared import Shared
from agent_env.training.tasks import Progress
from agent_env.training.verl.cpu.server import RolloutServer
from agent_env.training.verl.processes import Processes
from agent_env.training.verl.processors import load_processor, register_processors
from agent_env.training.verl.serving import serve_bundle
from agent_env.training.verl.source import is_url
from agent_env.training.verl.writer import LOOP_FILE, LoopOptions, PromptOptions, write

AT_ONCE = 64
"""Rollouts at once: as many as the sessions that a server admits unless told otherwise."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """An episode that was scored.

    Args:
        reward: of the episode.
        rows: that training would have of it: its steps in the step layout, 1 for a conversation.
        surprise: −log p of all tokens that the model drew, in nats, under what they were drawn from. At temperature 1
            its mean over episodes estimates the entropy of the policy over an episode.
    """

    reward: float
    rows: int
    surprise: float

    @classmethod
    def of(cls, output: AgentLoopOutput | list[AgentLoopOutput]) -> Played:
        """What a loop's output comes to."""
        rows = output if isinstance(output, list) else [output]
        drawn = [
            log_prob
            for row in rows
            for log_prob, mask in zip(row.response_logprobs or (), row.response_mask, strict=False)
            if mask
        ]
        return cls(float(rows[-1].reward_score), len(rows), -sum(drawn))


@dataclass(frozen=True)
class Evaluation:
    """What was scored, in the order of the tasks, and in words what became of the others."""

    played: tuple[Played, ...]
    failures: tuple[str, ...]

    @property
    def rewards(self) -> tuple[float, ...]:
        """Of what was scored."""
        return tuple(episode.reward for episode in self.played)

    @property
    def mean(self) -> Mean:
        """Over what was scored. Raises InputError if nothing was."""
        return Mean.of(self.rewards)


@contextlib.contextmanager
def rows_of(
    source: str,
    config: DictConfig,
    *,
    token: TokenSource = NO_TOKEN,
    loop: LoopOptions | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Path]:
    """The rows of a bundle (served meanwhile), or of the task server at a URL, in a folder that goes at the end.

    Args:
        token: where the server's is.
        loop: how an episode is laid out; a conversation if None.

    Raises:
        InputError: the bundle cannot be served, the model has no chat template, or prompts are too long for `config`.
        SessionError: the server cannot be read.
    """
    kwargs = dict(config.data.get("apply_chat_template_kwargs") or {})
    prompts = PromptOptions(config.actor_rollout_ref.model.path, kwargs, config.data.max_prompt_length)
    with Processes() as processes, processes.scratch("agent-env-eval-") as scratch:
        url = source
        if not is_url(source):
            output = scratch / "server.txt"
            url = serve_bundle(processes, source, output, max_sessions=AT_ONCE, token=token)
        data = scratch / "data"
        write(Shared(url, token.var, token.file), data, loop=loop, prompts=prompts, progress=progress)
        yield data


def evaluate(
    config: DictConfig,
    data: Path,
    split: str,
    *,
    temperature: float,
    n: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Play the first `n` tasks of a split once each, all of them if None.

    Args:
        config: verl's, whole: the model, the lengths, the seed of the sampling.
        data: the folder the writer wrote from a server that still runs.
        temperature: 0 for greedy.

    Raises:
        InputError: the server has no such split.
        SessionError: something is set up wrongly, and is so for every task.
    """
    rows = _rows(data, split)[:n]
    (entry,) = yaml.safe_load((data / LOOP_FILE).read_text(encoding="utf-8"))
    loop = {key: value for key, value in entry.items() if key != "name"}
    server = _server(config)
    try:
        outcomes = run(_play(config, loop, server, rows, temperature, progress))
    finally:
        server.close()
    return Evaluation(
        tuple(outcome for outcome in outcomes if isinstance(outcome, Played)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, str)),
    )


def _server(config: DictConfig) -> RolloutServer:
    register_processors()
    try:
        return RolloutServer(config.actor_rollout_ref.rollout, config.actor_rollout_ref.model, replica_rank=0)
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            Problem(f"model {config.actor_rollout_ref.model.path!r}", f"cannot be loaded: {first}")
        ) from error


async def _play(
    config: DictConfig,
    loop: Mapping[str, Any],
    server: RolloutServer,
    rows: Sequence[Json],
    temperature: float,
    progress: Progress,
) -> list[Played | str]:
    """What came of each row's rollout, or why it has no reward. The first error of another kind ends all."""
    model = config.actor_rollout_ref.model.path
    told = AutoConfig.from_pretrained(model)
    parts = {
        "trainer_config": DictConfigWrap(config=config),
        "server_manager": _Client(server),
        "tokenizer": AutoTokenizer.from_pretrained(model),
        "processor": load_processor(told, model, f"model {model!r}"),
        "hf_model_type": told.model_type,
        "dataset_cls": RLHFDataset,
        "data_config": DictConfigWrap(config.data),
        "tools": ToolListWrap([]),
    }
    turns = asyncio.Semaphore(AT_ONCE)
    done = 0
    progress("playing", done, len(rows))

    async def played(row: Json) -> Played | str:
        nonlocal done
        outcome: Played | str
        async with turns:
            rollout = hydra.utils.instantiate(loop, **parts)
            sampling = {"temperature": temperature, "top_p": 1.0}
            try:
                output = await rollout.run(sampling, raw_prompt=row["prompt"], **row)
                outcome = Played.of(output)
            except RolloutFailed as error:
                outcome = f"{row['extra_info']['task_id']}: {error}"
        done += 1
        progress("playing", done, len(rows))
        return outcome

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(played(row)) for row in rows]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class _Client:
    """What a loop has in place of verl's client of its rollout servers: one server, in this process."""

    def __init__(self, server: RolloutServer) -> None:
        self._server = server

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **media: Any
    ) -> TokenOutput:
        given = {name: value for name, value in media.items() if value}
        return await self._server.generate(prompt_ids, sampling_params, request_id, **given)


def _rows(data: Path, split: str) -> list[Json]:
    file = data / f"{split}.parquet"
    if not file.is_file():
        splits = ", ".join(sorted(path.stem for path in data.glob("*.parquet")))
        raise InputError(f"the server has no split {split!r}; its splits are {splits}")
    rows: list[Json] = pyarrow.parquet.read_table(file).to_pylist()
    return rows
