"""What an evaluation is asked for, checked before anything is started; verl and torch are not imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_env.errors import Problems
from agent_env.tokens import TokenSource
from agent_env.training.verl import settings
from agent_env.training.verl.prompts import check_model
from agent_env.training.verl.source import check_source
from agent_env.training.verl.values import check_values
from agent_env.training.verl.writer import layout_options


def evaluation_config(model: str, *, seed: int = 1, overrides: Sequence[str] = ()) -> Any:
    """verl's configuration (a ``DictConfig``) as a training run of the profile ``cpu`` would have it for this model.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        seed: of the sampling.
        overrides: verl's own settings, ``key=value``.

    Raises:
        InputError: with every override that cannot be used.
    """
    problems = Problems()
    owned = {"actor_rollout_ref.model.path": "name the model", "actor_rollout_ref.rollout.seed": "use --seed"}
    own = settings.parse_overrides(overrides, problems, owned=owned)
    path = str(Path(model).resolve()) if Path(model).exists() else model
    given = settings.of({"actor_rollout_ref.model.path": path, "actor_rollout_ref.rollout.seed": seed})
    merged = settings.defaults().over(settings.load("profile", "cpu")).over(given).over(own)
    config = problems.of(lambda: settings.compose(merged))
    if config is not None:
        problems.of(lambda: check_values(config))
    problems.settle()
    return config


def checked(
    source: str,
    model: str,
    split: str,
    *,
    seed: int,
    overrides: Sequence[str],
    token: TokenSource,
    context: str = "conversation",
    step_options: Sequence[str] = (),
) -> Any:
    """`evaluation_config`, once all that is asked for was found usable as far as can be told without starting anything.

    Raises:
        MissingExtra: verl, hydra or transformers is not installed.
        InputError: with all problems.
    """
    problems = Problems()
    problems.of(lambda: check_source(source, token, {"--split": split}))
    problems.of(lambda: layout_options(context, step_options))
    config = problems.of(lambda: evaluation_config(model, seed=seed, overrides=overrides))
    kwargs = {} if config is None else dict(config.data.get("apply_chat_template_kwargs") or {})
    problems.of(lambda: check_model(model, "MODEL", kwargs, context))
    problems.settle()
    return config
