"""Writes what verl trains on: a parquet file per split with a row per task, and the YAML that registers the loop.

A row holds the task's first prompt, and in ``extra_info`` which task it is and the tools it is played with. The tools
are one JSON string: as a column of structs they would be merged by Arrow into one type, and every tool would show the
fields of all others, as nulls, to the model. The schema is explicit, so an empty split keeps its columns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_env.errors import InputError, MissingExtra, Problem, Problems
from agent_env.training.folder import check_target, replacing
from agent_env.training.running import run
from agent_env.training.shared import Shared
from agent_env.training.step_layout import step_options
from agent_env.training.step_options import StepOptions, parse_options
from agent_env.training.step_player import messages_of
from agent_env.training.task_api import TaskRow
from agent_env.training.tasks import Progress, TasksAndTools, tasks_and_tools
from agent_env.training.verl.first_prompts import FirstPrompts, ShownTools, longest_prompt
from agent_env.training.verl.prompts import PromptCounter

AGENTS = {"conversation": "agentenv", "steps": "agentenv_steps"}
"""The name under which verl finds the loop of each layout."""
LOOPS = {
    "conversation": "agent_env.training.verl.loop.AgentEnvAgentLoop",
    "steps": "agent_env.training.verl.steps.AgentEnvStepLoop",
}
LOOP_FILE = "agent_loop.yaml"
MARK = b"agentenv"
"""A key in the metadata of the parquet files written here."""

Json = dict[str, Any]


@dataclass(frozen=True)
class LoopOptions:
    """What ``agent_loop.yaml`` tells the loop, beside what `Shared` holds.

    Args:
        attempts: episodes a rollout may begin.
        traces: folder the loop writes traces to; None for no traces.
        context: ``conversation``, one that grows, or ``steps``, a fresh prompt each step.
        step_options: of the step layout, by their names in `StepOptions`; they win over the bundle's.
        bundle: the folder of the bundle that is served, if it is here: a memory class of its own is loaded from there.
        draw_seeds: splits of whose tasks each group of rollouts gets an episode seed of its own, where their bundle
            allows it (``draw_seeds`` in ``bundle.toml``); not one that evaluations play.
    """

    attempts: int = 3
    traces: str | None = None
    context: str = "conversation"
    step_options: Mapping[str, Any] = field(default_factory=dict)
    bundle: Path | None = None
    draw_seeds: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptOptions:
    """How prompts are counted, if they are.

    Args:
        tokenizer: a model's folder or name; None to count nothing.
        template_kwargs: verl's ``data.apply_chat_template_kwargs``.
        max_length: tokens a prompt may have with its tools; None for any number.
    """

    tokenizer: str | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_length: int | None = None


@dataclass(frozen=True)
class Written:
    """What was written.

    Args:
        files: names, ``agent_loop.yaml`` first.
        rows: number of rows by split.
        longest_prompt: tokens of the longest prompt with its tools; None if none was counted.
    """

    files: tuple[str, ...]
    rows: Mapping[str, int]
    longest_prompt: int | None


def write(
    shared: Shared,
    out: Path,
    *,
    loop: LoopOptions | None = None,
    prompts: PromptOptions | None = None,
    progress: Progress | None = None,
) -> Written:
    """Read a server's tasks and write verl's rows and loop configuration into `out`, all of it or nothing.

    Args:
        shared: where the server is; its URL, its deadlines and where its token is go into the configuration.
        out: replaced as a whole if it is there; files that are not of this writer's stay.
        progress: told of each part of the work.

    Raises:
        MissingExtra: a package of the ``verl`` extra is not installed.
        InputError: the options, all problems at once, before the server is read; tasks that cannot be rows; prompts
            that are over the limit, before anything is written.
        SessionError: the server cannot be read.
    """
    loop, prompts = loop or LoopOptions(), prompts or PromptOptions()
    _pyarrow()
    counter = checked(shared, out, loop, prompts)
    tell = progress or (lambda what, done, total: None)
    tasks = run(tasks_and_tools(shared, tell))
    _check_split_names(tasks)
    shown_tools = ShownTools(tasks)
    steps = None
    if loop.context == "steps":
        steps = run(step_options(shared, dict(loop.step_options), loop.bundle))
    longest = None
    if counter is not None:
        longest = longest_prompt(tasks, FirstPrompts(shown_tools, steps), counter, prompts.max_length, tell)
    try:
        with replacing(out, _ours) as folder:
            files = _write_files(folder, shared, loop, steps, tasks, shown_tools, tell)
    except OSError as error:
        fix = "nothing was changed; make room, or name another folder"
        raise InputError(Problem(str(out), f"cannot be written: {error.strerror or error}", fix)) from error
    return Written(files, {split: len(rows) for split, rows in tasks.splits.items()}, longest)


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("verl", "pyarrow") from error
    return pyarrow


def checked(shared: Shared | None, out: Path, loop: LoopOptions, prompts: PromptOptions) -> PromptCounter | None:
    """The counter that the options ask for, once all of them were found usable.

    Raises:
        MissingExtra: transformers is not installed, and prompts are to be counted.
        InputError: with everything wrong with the options.
    """
    problems = Problems(check_target(out))
    if shared is not None:
        problems.of(lambda: shared.token)
    problems.of(lambda: check_context(loop.context, loop.step_options))
    if loop.attempts < 1:
        problems.append(Problem("--attempts", f"expected 1 or more, got {loop.attempts}"))
    if prompts.max_length is not None and prompts.max_length < 1:
        problems.append(Problem("--max-prompt-length", f"expected 1 or more, got {prompts.max_length}"))
    counter = None
    if (tokenizer := prompts.tokenizer) is not None:
        counter = problems.of(lambda: PromptCounter(tokenizer, prompts.template_kwargs, context=loop.context))
    else:
        idle = [("--max-prompt-length", prompts.max_length), ("--chat-template-kwargs", prompts.template_kwargs)]
        for option, value in idle:
            if value:
                problems.append(Problem(option, "counts nothing without a tokenizer", "add --tokenizer MODEL"))
    problems.settle()
    return counter


def check_context(context: str, step_options: Mapping[str, Any]) -> None:
    """Raises InputError for a layout that there is not, and for options that cannot be used with it."""
    if context == "steps":
        StepOptions().with_(step_options)
    elif context not in AGENTS:
        raise InputError(Problem("--context", f"expected {' or '.join(AGENTS)}, got {context!r}"))
    elif step_options:
        what, fix = "is of the step layout, and this is a conversation", "add --context steps"
        raise InputError([Problem(f"--step {name}", what, fix) for name in step_options])


def layout_options(context: str, arguments: Sequence[str]) -> dict[str, Any]:
    """A layout's options, as a user types them, checked. Raises InputError with everything wrong with them."""
    problems = Problems()
    options: dict[str, Any] = {}
    for argument in arguments:
        options |= problems.of(functools.partial(parse_options, [argument])) or {}
    problems.of(lambda: check_context(context, options))
    problems.settle()
    return options


def _check_split_names(tasks: TasksAndTools) -> None:
    bad = [name for name in tasks.splits if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)]
    if bad:
        raise InputError([Problem(f"split {name!r}", "cannot be the name of a file", "rename it") for name in bad])


def _write_files(
    folder: Path,
    shared: Shared,
    loop: LoopOptions,
    steps: StepOptions | None,
    tasks: TasksAndTools,
    tools: ShownTools,
    tell: Progress,
) -> tuple[str, ...]:
    files = [LOOP_FILE]
    (folder / LOOP_FILE).write_text(_loop_config(shared, loop, steps, tasks), encoding="utf-8")
    agent = AGENTS[loop.context]
    for done, split in enumerate(sorted(tasks.splits)):
        tell("writing", done, len(tasks.splits))
        _write_parquet(
            folder / f"{split}.parquet", [_row(tasks.env, agent, task, tools) for task in tasks.splits[split]]
        )
        files.append(f"{split}.parquet")
    tell("writing", len(tasks.splits), len(tasks.splits))
    return tuple(files)


def _row(env: str, agent: str, task: TaskRow, tools: ShownTools) -> Json:
    return {
        "data_source": f"agentenv/{env}",
        "agent_name": agent,
        "prompt": messages_of(task.system_prompt, task.prompt),
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {
            "split": task.split,
            "index": task.index,
            "task_id": task.id,
            "turns": task.turns,
            "tools": tools.of(task)[1],
        },
    }


def _write_parquet(path: Path, rows: list[Json]) -> None:
    arrow = _pyarrow()
    text = arrow.string()
    schema = arrow.schema(
        [
            ("data_source", text),
            ("agent_name", text),
            ("prompt", arrow.list_(arrow.struct([("role", text), ("content", text)]))),
            ("reward_model", arrow.struct([("style", text), ("ground_truth", text)])),
            (
                "extra_info",
                arrow.struct(
                    [
                        ("split", text),
                        ("index", arrow.int64()),
                        ("task_id", text),
                        ("turns", arrow.int64()),
                        ("tools", text),
                    ]
                ),
            ),
        ],
        metadata={MARK: b"1"},
    )
    with arrow.parquet.ParquetWriter(path, schema) as file:
        if rows:  # a row group without rows is an error to the `datasets` package
            file.write_table(arrow.Table.from_pylist(rows, schema=schema))


def _ours(path: Path) -> bool:
    """Whether this writer wrote a file: a split's rows of an earlier run go when the server has that split no more."""
    if path.name == LOOP_FILE:
        return True
    if path.suffix != ".parquet":
        return False
    arrow = _pyarrow()
    try:
        return MARK in (arrow.parquet.read_schema(path).metadata or {})
    except (OSError, arrow.ArrowException):
        return False


def _loop_config(shared: Shared, loop: LoopOptions, steps: StepOptions | None, tasks: TasksAndTools) -> str:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("verl", "yaml") from error
    config = {
        "name": AGENTS[loop.context],
        "_target_": LOOPS[loop.context],
        "url": shared.url,
        "token_var": shared.token_source.var,
        "token_file": shared.token_source.file,
        "attempts": loop.attempts,
        "reset_timeout": shared.reset_timeout,
        "call_timeout": shared.call_timeout,
        "connect_timeout": shared.connect_timeout,
        "steps": list(tasks.steps),
        "draw_seeds": [
            split
            for split in loop.draw_seeds
            if tasks.splits.get(split) and all(task.draw_seeds for task in tasks.splits[split])
        ],
        "traces": loop.traces,
        **({} if steps is None else {name: _literal(value) for name, value in asdict(steps).items()}),
    }
    text: str = yaml.safe_dump([config], sort_keys=False, allow_unicode=True)
    return text


def _literal(value: Any) -> Any:
    """`value` for a file that OmegaConf reads, in parts where a text has ``${``: that would begin a reference."""
    if isinstance(value, str) and "${" in value:
        return re.split(r"(?<=\$)(?=\{)", value)
    return value
