"""verl's settings for a run, put together of layers: defaults, a profile (where), a recipe (how), the user's own.

A layer is a YAML file with ``overrides`` (verl's keys, a leading ``+`` for one that is new to it) and
``env`` (variables; null to unset one). A profile or recipe may say that it ``extends`` a built-in one, what it is
``about``, and a recipe the ``context`` layout it is for. A later layer wins, key by key. The result is what a user
could type behind ``python -m verl.trainer.main_ppo``; nothing reads these files at training time.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from agent_env.errors import InputError, MissingExtra, Problem

HERE = Path(__file__).parent
Kind = Literal["recipe", "profile"]
CONTEXTS = ("conversation", "steps")

_ARGUMENT = re.compile(r"(?P<mark>~|\+{0,2})(?P<key>[A-Za-z_][\w@./-]*)(?:=(?P<value>.*))?", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+|\$\{[\w.]+\}")


@dataclass(frozen=True)
class Settings:
    """What verl is started with.

    Attributes:
        arguments: by verl's key (without a mark): the argument for its command line.
        env: environment variables; None for one to unset.
    """

    arguments: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)

    def over(self, later: Settings) -> Settings:
        """These settings with `later` ones over them. A key that needed a ``+`` keeps it."""
        arguments = dict(self.arguments)
        for key, argument in later.arguments.items():
            added = arguments.get(key, "").startswith("+") and not argument.startswith(("+", "~"))
            arguments[key] = f"+{argument}" if added else argument
        return Settings(arguments, {**self.env, **later.env})

    def command(self) -> list[str]:
        """verl's command, without the environment."""
        return [sys.executable, "-m", "verl.trainer.main_ppo", *self.arguments.values()]

    def environment(self) -> dict[str, str]:
        """This process's environment with the settings' variables in it."""
        kept = {name: value for name, value in os.environ.items() if name not in self.env}
        return kept | {name: value for name, value in self.env.items() if value is not None}

    def shell(self) -> str:
        """Environment and command for a shell, an argument a line."""
        unset = [f"-u {name}" for name, value in self.env.items() if value is None]
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.env.items() if value is not None]
        words = ["env", *unset, *variables, *(shlex.quote(word) for word in self.command()[:3])]
        return " \\\n    ".join([" ".join(words), *(shlex.quote(word) for word in self.command()[3:])])


def available(kind: Kind) -> list[str]:
    """The names of the built-in recipes or profiles."""
    return sorted(path.stem for path in (HERE / f"{kind}s").glob("*.yaml"))


def load(kind: Kind, name: str) -> Settings:
    """A built-in recipe or profile by name, or any by the path of its YAML file.

    Raises:
        InputError: there is none of the name, or the file is not of the format; all problems at once.
    """
    path = _path(kind, name)
    if not path.is_file():
        fix = f"use one of {', '.join(available(kind))}, or the path of a YAML file"
        raise InputError(Problem(f"--{kind}", f"there is no {kind} {name!r}", fix))
    return read(path, kind)


def defaults() -> Settings:
    """The layer under all others."""
    return read(HERE / "defaults.yaml")


def read(path: Path, kind: Kind | None = None) -> Settings:
    """A layer's YAML file, over the built-in layer of its kind that it extends, if any.

    Raises:
        InputError: with everything wrong with it.
    """
    content = _content(path)
    parts = ("about", "extends", "context", "overrides", "env")
    unknown = sorted(str(name) for name in content.keys() - set(parts))
    fix = f"use {', '.join(parts)}"
    problems = [Problem(str(path), f"has no part {name!r}", fix) for name in unknown]
    base = content.get("extends")
    known = available(kind) if kind else []
    if base is not None and base not in known:
        problems.append(Problem(f"{path}: extends", f"there is no {base!r}", f"use one of {', '.join(known)}"))
    if content.get("context") not in (None, *CONTEXTS):
        fix = f"use one of {', '.join(CONTEXTS)}"
        problems.append(Problem(f"{path}: context", f"there is no layout {content['context']!r}", fix))
    overrides, env = content.get("overrides") or {}, content.get("env") or {}
    for name, part in (("overrides", overrides), ("env", env)):
        if not isinstance(part, dict):
            problems.append(Problem(f"{path}: {name}", "is no mapping of keys to values"))
    if problems:
        raise InputError(problems)
    arguments = {}
    for key, value in overrides.items():
        match = _ARGUMENT.fullmatch(str(key))
        if match is None or match["value"] is not None or match["mark"] == "~":
            problems.append(Problem(f"{path}: {key}", "is no key of verl's"))
        else:
            arguments[match["key"]] = f"{key}={written(value)}"
    for name, value in env.items():
        if value is not None and not isinstance(value, str):
            problems.append(Problem(f"{path}: env: {name}", f"is {value!r}", "write a text in quotes, or null"))
    if problems:
        raise InputError(problems)
    own = Settings(arguments, {str(name): value for name, value in env.items()})
    return own if base is None or kind is None else load(kind, base).over(own)


def about(kind: Kind, name: str) -> tuple[str, str | None]:
    """What a recipe or profile is, in a line, and the context layout it is for; None for any.

    Raises:
        InputError: as `load`.
    """
    load(kind, name)  # what is wrong with it comes up here
    content = _content(_path(kind, name))
    context = content.get("context")
    if context is None and content.get("extends") is not None:
        context = about(kind, content["extends"])[1]
    return str(content.get("about") or ""), context


def _path(kind: Kind, name: str) -> Path:
    return Path(name) if name.endswith((".yaml", ".yml")) else HERE / f"{kind}s" / f"{name}.yaml"


def _content(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("cpu", "yaml") from error
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from error
    if not isinstance(content, dict):
        raise InputError(Problem(str(path), "is no mapping", "write `overrides:` and `env:`"))
    return content


def of(overrides: Mapping[str, Any], env: Mapping[str, str | None] | None = None) -> Settings:
    """Settings of plain values; keys may carry a mark."""
    return Settings({key.lstrip("+"): f"{key}={written(value)}" for key, value in overrides.items()}, env or {})


def parse_overrides(arguments: Sequence[str], problems: list[Problem], *, owned: Mapping[str, str]) -> Settings:
    """The user's own ``key=value`` arguments, for verl as they are; those of them that can be used.

    Args:
        arguments: as typed; ``+key=value``, ``++key=value`` and ``~key`` are hydra's.
        problems: told everything that is no override, and every key that is owned.
        owned: keys that are set otherwise, and by what.
    """
    parsed = {}
    for argument in arguments:
        match = _ARGUMENT.fullmatch(argument)
        if match is None or (match["value"] is None) != (match["mark"] == "~"):
            problems.append(Problem(argument, "is no override of verl's settings", "write key=value"))
        elif match["key"] in owned:
            problems.append(Problem(argument, "is set by agent-env", owned[match["key"]]))
        else:
            parsed[match["key"]] = argument
    return Settings(parsed)


def written(value: Any) -> str:
    """A value as hydra's command line reads it.

    Raises:
        InputError: a value that is no YAML scalar, list or mapping.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(written(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{written(item)}' for key, item in value.items())}}}"
    if not isinstance(value, str):
        raise InputError(f"verl's settings cannot hold {value!r}")
    if _PLAIN.fullmatch(value) and value.lower() not in ("null", "true", "false", "nan", "inf") and not _number(value):
        return value
    # In quotes hydra knows two escapes: of the quote itself, and of a backslash before it or at the end.
    return "'" + re.sub(r"(\\*)'", r"\1\1\\'", re.sub(r"(\\+)$", r"\1\1", value)) + "'"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def compose(settings: Settings) -> Any:
    """verl's whole configuration under these settings, as verl would compose it (an OmegaConf ``DictConfig``).

    verl itself is not imported, only its YAML files are read.

    Raises:
        MissingExtra: verl or hydra is not installed.
        InputError: hydra refuses the settings: an unknown key, a value that cannot be read.
    """
    spec = find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("cpu", "verl")
    try:
        from hydra import compose as hydra_compose
        from hydra import initialize_config_dir
        from hydra.core.global_hydra import GlobalHydra
        from hydra.errors import HydraException
        from omegaconf.errors import OmegaConfBaseException
    except ImportError as error:
        raise MissingExtra("cpu", "hydra") from error
    folder = Path(next(iter(spec.submodule_search_locations))) / "trainer" / "config"
    GlobalHydra.instance().clear()
    # hydra's own settings (hydra.run.dir and the like) are for its command line alone.
    arguments = [argument for key, argument in settings.arguments.items() if not re.match(r"hydra[./]", key)]
    try:
        with initialize_config_dir(str(folder), version_base=None):
            return hydra_compose("ppo_trainer", overrides=arguments)
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ or error
        first = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        fix = "verl's keys are those of verl/trainer/config/ppo_trainer.yaml"
        raise InputError(Problem("verl's settings", first.strip(), fix)) from error
