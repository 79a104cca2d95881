"""Where a model is: in a folder, in this machine's cache of the hub, or on the hub, which is asked once and briefly.

Left to themselves, transformers and the hub's client take a mistyped folder for a name on the hub, and ask for it again
and again for a minute. Here a name is the hub's only if it looks like one, and whether the hub has it is settled before
anything is loaded.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from agent_env.errors import InputError, MissingExtra, Problem

HUB_SECONDS = 10.0
"""For the hub to say whether it has a model."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_TOKENIZER = ("tokenizer*", "vocab*", "*.model", "tekken.json")
_WEIGHTS = ("*.safetensors", "*.bin")


def load_tokenizer(name: str, option: str) -> Any:
    """The tokenizer of a model, with a chat template.

    Args:
        name: a folder, or OWNER/NAME on the Hugging Face hub.
        option: what named it, for messages.

    Raises:
        MissingExtra: transformers is not installed.
        InputError: it cannot be loaded, or has no chat template.
    """
    _check_place(name, option, tokenizer=_TOKENIZER)
    tokenizer = _loaded("AutoTokenizer", name, option, "its tokenizer")
    if not tokenizer.chat_template:
        fix = "use an instruct model, or one with a chat_template in its tokenizer_config.json"
        raise InputError(Problem(f"{option} {name!r}", "has no chat template", fix))
    return tokenizer


def load_config(name: str, option: str) -> Any:
    """The configuration of a model whose files are all there, by transformers; see `load_tokenizer`."""
    _check_place(name, option, tokenizer=_TOKENIZER, config=("config.json",), weights=_WEIGHTS)
    return _loaded("AutoConfig", name, option, "its config.json")


def _check_place(name: str, option: str, **parts: tuple[str, ...]) -> None:
    """Look for a model without loading anything: importing transformers alone takes seconds.

    Args:
        parts: what a folder must hold: by its name, patterns of which one file is enough.

    Raises:
        MissingExtra: transformers is not installed.
        InputError: it is neither a folder that holds them all nor cached here nor on the hub.
    """
    if find_spec("transformers") is None:
        raise MissingExtra("verl", "transformers")
    if not name:
        raise InputError(Problem(option, "is missing", "`agent-env warm-start BUNDLE OUT` makes a tiny model"))
    where, place, fix = f"{option} {name!r}", Path(name), "name a model's folder, or OWNER/NAME on the hub"
    if place.is_dir():
        # transformers makes an empty tokenizer of a config.json alone.
        missing = [part for part, files in parts.items() if not any(next(place.glob(file), None) for file in files)]
        problems = [Problem(where, f"holds no {part} ({', '.join(parts[part])})", fix) for part in missing]
        if problems:
            raise InputError(problems)
    elif place.exists():
        raise InputError(Problem(where, "is a file", fix))
    elif not _HUB_NAME.fullmatch(name):
        raise InputError(Problem(where, "is no folder", fix))
    else:
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            _ask_hub(name, where)


def _loaded(loader: str, name: str, option: str, what: str) -> Any:
    """What a class of transformers makes of a model's files: of those on this machine, if they are here."""
    import transformers

    where, load = f"{option} {name!r}", getattr(transformers, loader).from_pretrained
    try:
        try:
            return load(name, local_files_only=True)
        except OSError:
            if Path(name).is_dir():
                raise
        _ask_hub(name, where)
        return load(name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        # Of a message of several paragraphs the first says what is wrong, the others what one could read.
        said = str(error).strip().split("\n\n")[0] or type(error).__name__
        raise InputError(Problem(where, f"{what} cannot be loaded: {said}")) from error


def _ask_hub(name: str, where: str) -> None:
    """Raises InputError if the hub does not have a model, or does not say so soon."""
    if (beside := Path(name).parent).is_dir():
        raise InputError(Problem(where, f"is no folder, though {beside} is one", "name a model's folder"))
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except RepositoryNotFoundError as error:
        fix = "correct the name; for a private one, set HF_TOKEN"
        raise InputError(Problem(where, "is no folder, and no model that the hub shows", fix)) from error
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"is no folder, is not in the hub's cache here, and the hub cannot be asked: {said}"
        raise InputError(Problem(where, what, "name a model's folder, or download it first")) from error
