"""From what a user asks for to what verl is started with; every problem of the input at once, nothing made yet."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from agent_env.errors import InputError, Problem, Problems
from agent_env.tokens import NO_TOKEN, TokenSource
from agent_env.training.model_layout import known_layout
from agent_env.training.verl import settings
from agent_env.training.verl.credit_options import check_credit
from agent_env.training.verl.plugin import ENTRY_POINT
from agent_env.training.verl.prompts import check_model
from agent_env.training.verl.runfolder import RunFolder
from agent_env.training.verl.serving import PEER_TIMEOUT
from agent_env.training.verl.settings import Settings
from agent_env.training.verl.source import check_source, is_url, loop_options
from agent_env.training.verl.values import check_values
from agent_env.training.verl.writer import AGENTS, LOOP_FILE, LoopOptions, PromptOptions, layout_options

OWNED = {
    "data.train_files": "use --train-split",
    "data.val_files": "use --eval-split",
    "actor_rollout_ref.model.path": "use --model",
    "actor_rollout_ref.rollout.agent.agent_loop_config_path": "it is written with the rows",
    "actor_rollout_ref.rollout.seed": "use --seed",
    "data.seed": "use --seed",
    "trainer.total_training_steps": "use --steps",
    "trainer.default_local_dir": "use --run",
    "trainer.experiment_name": "use --run",
    "trainer.validation_data_dir": "use --run",
    "trainer.resume_mode": "a run of the same name goes on where it stopped",
    "trainer.resume_from_path": "a run of the same name goes on where it stopped",
    "trainer.val_only": "use agent-env eval, or add it to the verl command that --dry-run prints",
}
"""Keys of verl's that have a meaning for the run folder, and what to use instead."""


@dataclass(frozen=True)
class TrainOptions:
    """What a user asks for.

    Args:
        source: a bundle (folder or built-in name), which is then served here, or the URL of a task server.
        model: a folder with a model, or its name on the Hugging Face hub.
        run: the run's folder.
        recipe, profile: by name or path.
        seed: of data order and sampling.
        steps: training steps.
        overrides: verl's own settings, ``key=value``.
        token: where the server's is.
        train_split, eval_split: of the tasks.
        context: ``conversation`` or ``steps``, how the model is shown an episode; the recipe's if None, for one that
            says nothing of it the one that the model is known to be trained in, or else ``conversation``.
        step_options: of the step layout, ``name=value``.
        attempts: episodes that a rollout may begin.
        reset_timeout: seconds for a reset; sessions are waited for and attempts started as long.
    """

    source: str
    model: str
    run: Path
    recipe: str = "grpo"
    profile: str = "cpu"
    seed: int = 1
    steps: int = 40
    overrides: tuple[str, ...] = ()
    token: TokenSource = NO_TOKEN
    train_split: str = "train"
    eval_split: str = "eval"
    context: str | None = None
    step_options: tuple[str, ...] = ()
    attempts: int = 3
    reset_timeout: float = 600.0

    @property
    def layout(self) -> str:
        """``context``, once `checked` knows what the recipe says."""
        return self.context or "conversation"

    @property
    def is_url(self) -> bool:
        return is_url(self.source)

    @property
    def splits(self) -> dict[str, str]:
        """The splits that are asked for, by the option that does."""
        return {"--train-split": self.train_split, "--eval-split": self.eval_split}

    def identity(self) -> dict[str, Any]:
        """What makes two starts the same run; more steps may be asked for later."""
        return {
            "source": self.source if self.is_url else _absolute(self.source),
            "model": _absolute(self.model),
            "recipe": self.recipe,
            "profile": self.profile,
            "seed": self.seed,
            "overrides": list(self.overrides),
            "train_split": self.train_split,
            "eval_split": self.eval_split,
            "context": self.layout,
            "step_options": list(self.step_options),
        }


def _absolute(name: str) -> str:
    """A path as an absolute one; what is no path as it is (a built-in bundle, a model of the hub)."""
    return str(Path(name).resolve()) if Path(name).exists() else name


@dataclass(frozen=True)
class Plan:
    """A checked run: everything but where it resumes.

    Attributes:
        options: what was asked for.
        folder: of the run.
        settings: for verl.
        config: verl's whole configuration under them.
    """

    options: TrainOptions
    folder: RunFolder
    settings: Settings
    config: Any

    def loop(self) -> LoopOptions:
        options = self.options
        traces = str(self.folder.traces.resolve())
        loop = loop_options(options.source, options.layout, options.step_options, traces)
        loop = replace(loop, attempts=options.attempts)
        # Tasks that are evaluated on, too, keep their own seeds: an evaluation is the same each time.
        own = options.train_split in (options.eval_split, "all") or options.eval_split == "all"
        return loop if own else replace(loop, draw_seeds=(options.train_split,))

    def prompts(self) -> PromptOptions:
        data = self.config.data
        kwargs = dict(data.get("apply_chat_template_kwargs") or {})
        return PromptOptions(self.options.identity()["model"], kwargs, data.max_prompt_length)

    def sessions(self, eval_tasks: int) -> int:
        """Sessions the server must have for nobody to wait long."""
        rollout = self.config.actor_rollout_ref.rollout
        training = self.config.data.train_batch_size * rollout.n
        return int(max(64, 2 * training, min(256, eval_tasks * rollout.val_kwargs.n)))

    def started(self, checkpoint: Path | None, *, evaluate: bool, metrics: Path) -> Settings:
        """The settings of one start.

        Args:
            checkpoint: where it goes on; None to begin.
            evaluate: whether it begins with an evaluation.
            metrics: the file verl writes metrics to, from empty.
        """
        resume: dict[str, Any] = {"trainer.resume_mode": "disable"}
        if checkpoint is not None:
            path = str(checkpoint.resolve())
            resume = {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": path}
        resume["trainer.val_before_train"] = evaluate
        return self.settings.over(settings.of(resume, {"VERL_FILE_LOGGER_PATH": str(metrics.resolve())}))

    def by_hand(self, begin: Settings) -> str:
        """Commands that do the same without this launcher."""
        options, prompts, url = self.options, self.prompts(), self.options.source
        lines = []
        if not options.is_url:
            url = "http://127.0.0.1:8000"
            serve = [sys.executable, "-m", "agent_env.cli.main", "serve", str(self.options.identity()["source"])]
            serve += ["--max-sessions", str(self.sessions(256)), "--peer-timeout", str(PEER_TIMEOUT)]
            lines += ["# 1. Serve the tasks, in another terminal", shlex.join(serve), ""]
        write = [sys.executable, "-m", "agent_env.training.verl", url, str(self.folder.data.resolve())]
        write += ["--tokenizer", str(prompts.tokenizer), "--max-prompt-length", str(prompts.max_length)]
        if prompts.template_kwargs:
            write += ["--chat-template-kwargs", json.dumps(dict(prompts.template_kwargs))]
        write += options.token.options
        write += ["--attempts", str(options.attempts), "--reset-timeout", f"{options.reset_timeout:g}"]
        loop = self.loop()
        write += ["--traces", str(loop.traces)]
        write += [word for split in loop.draw_seeds for word in ("--draw-seeds", split)]
        if loop.context == "steps":
            write += ["--context", "steps", *(word for given in options.step_options for word in ("--step", given))]
            write += [] if loop.bundle is None else ["--bundle", str(loop.bundle)]
        number = len(lines) // 3 + 1
        lines += [f"# {number}. Write the rows", shlex.join(write), "", f"# {number + 1}. Train", begin.shell()]
        return "\n".join(lines)


def checked(options: TrainOptions) -> Plan:
    """Find everything wrong with what is asked for, as far as it can be told without starting anything.

    Raises:
        MissingExtra: verl, hydra or transformers is not installed.
        InputError: with all problems.
    """
    problems = Problems()
    folder = RunFolder(options.run)
    recipe = problems.of(lambda: settings.load("recipe", options.recipe))
    if recipe is not None:
        options = replace(options, context=problems.of(lambda: _context(options)))
    profile = problems.of(lambda: settings.load("profile", options.profile))
    own = settings.parse_overrides(options.overrides, problems, owned=OWNED)
    problems.of(lambda: _check_numbers(options))
    problems.of(lambda: check_source(options.source, options.token, options.splits))
    problems.of(lambda: layout_options(options.layout, options.step_options))
    problems += folder.check(options.identity())
    config = merged = None
    if recipe is not None and profile is not None:
        merged = settings.defaults().over(profile).over(recipe).over(_of_the_run(options, folder)).over(own)
        config = problems.of(lambda: settings.compose(merged))
        if config is not None:
            problems.of(lambda: check_values(config))
            problems.of(lambda: check_credit(config, options.layout))
        problems.of(lambda: _check_plugin(merged.env))
    kwargs = {} if config is None else dict(config.data.get("apply_chat_template_kwargs") or {})
    problems.of(lambda: check_model(options.model, "--model", kwargs, options.layout))
    problems.settle()
    assert merged is not None
    return Plan(options, folder, merged, config)


def _context(options: TrainOptions) -> str | None:
    """The layout to train in. Raises InputError for one that the recipe cannot do with."""
    needed = settings.about("recipe", options.recipe)[1]
    if needed is not None and options.context not in (None, needed):
        what = f"{options.context!r} cannot be trained with recipe {options.recipe!r}, which needs {needed!r}"
        raise InputError(Problem("--context", what, "leave --context away, or choose another recipe"))
    return options.context or needed or known_layout(options.model)


def _of_the_run(options: TrainOptions, folder: RunFolder) -> Settings:
    identity, data = options.identity(), folder.data.resolve()
    return settings.of(
        {
            "actor_rollout_ref.model.path": identity["model"],
            "critic.model.path": identity["model"],
            "actor_rollout_ref.rollout.agent.agent_loop_config_path": str(data / LOOP_FILE),
            "actor_rollout_ref.rollout.agent.default_agent_loop": AGENTS.get(options.layout, options.layout),
            "data.train_files": str(data / f"{options.train_split}.parquet"),
            "data.val_files": str(data / f"{options.eval_split}.parquet"),
            "data.seed": options.seed,
            "actor_rollout_ref.rollout.seed": options.seed,
            "actor_rollout_ref.actor.data_loader_seed": options.seed,
            "trainer.v1.sampler.sampler_kwargs.traces": str(folder.traces.resolve()),
            "trainer.total_training_steps": options.steps,
            "trainer.experiment_name": folder.path.name,
            "trainer.default_local_dir": str(folder.checkpoints.resolve()),
            "trainer.validation_data_dir": str(folder.validation.resolve()),
            "hydra.run.dir": str(folder.path.resolve()),
            "hydra.output_subdir": None,
            "hydra/job_logging": "disabled",
        }
    )


def _check_numbers(options: TrainOptions) -> None:
    problems = [
        Problem(name, f"expected {least} or more, got {value}")
        for name, value, least in (
            ("--steps", options.steps, 1),
            ("--seed", options.seed, 0),
            ("--attempts", options.attempts, 1),
            ("--reset-timeout", options.reset_timeout, 1),
        )
        if value < least
    ]
    if problems:
        raise InputError(problems)


def _check_plugin(env: Mapping[str, str | None]) -> None:
    """verl must find our plugin, where a run needs it: verl itself would only say that it knows no platform "cpu"."""
    if (env.get("VERL_PLATFORM") or "").lower() != "cpu":
        return
    wanted = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip()
    if wanted.lower() != "auto" and ENTRY_POINT not in [name.strip() for name in wanted.split(",")]:
        raise InputError(
            Problem("VERL_USE_EXTERNAL_PLUGINS", f"is {wanted!r}, which keeps verl from its CPU platform", "unset it")
        )
    if not any(point.name == ENTRY_POINT for point in entry_points(group="verl.plugins")):
        what = "this installation of agent-env has no entry point in the group verl.plugins"
        raise InputError(Problem("agentenv-rl", what, "install it again: pip install 'agentenv-rl[cpu]'"))
