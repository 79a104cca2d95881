"""What an agent sees of its environment: text, images, the admissible actions, and what a step was worth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_env.jsonable import nonfinite
from agent_env.pictures import as_url


@dataclass(frozen=True)
class Observation:
    """One observation.

    Args:
        text: what the agent reads.
        images: what it sees beside that, each a Pillow image, a PNG, JPEG or WebP file's bytes, or a ``data:`` or
            ``https:`` URL; kept as URLs (see `agent_env.pictures`).
        actions: the admissible actions, for a game that names them; None if any text may be tried.
        state: the key that equal states share; a hash of text and images if not given (see `key`).
        reward: of the step that led here.
        terminated: the environment reached an end of its own (Gymnasium's meaning).
        truncated: the environment stopped for another reason, such as a step limit.
        info: anything else, JSON-able; the agent does not see it.

    Raises:
        ValueError: a value has the wrong type, or `reward` or `info` holds NaN or an infinity; names the field.
    """

    text: str
    images: Sequence[Any] = ()
    actions: Sequence[str] | None = None
    state: str | None = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"Observation.text: expected str, got {type(self.text).__name__}")
        object.__setattr__(self, "images", _urls(self.images))
        if self.actions is not None:
            object.__setattr__(self, "actions", _strings("actions", self.actions))
        if self.state is not None and not isinstance(self.state, str):
            raise ValueError(f"Observation.state: expected str or None, got {type(self.state).__name__}")
        object.__setattr__(self, "reward", float(self.reward))
        for name in ("reward", "info"):
            if (where := nonfinite(getattr(self, name))) is not None:
                raise ValueError(f"Observation.{name}{where}: NaN and infinities are refused")

    @property
    def key(self) -> str:
        """`state`, or a hash of text and images: observations with one key are one state."""
        if self.state is not None:
            return self.state
        digest = hashlib.sha256()
        for part in (self.text, *self.images):
            digest.update(len(part).to_bytes(8, "big") + part.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:32]

    @property
    def over(self) -> bool:
        """Whether no further action is possible."""
        return self.terminated or self.truncated


def _strings(name: str, value: Sequence[str]) -> tuple[str, ...]:
    """`value` as a tuple; a lone str is a mistake that would otherwise become its letters."""
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"Observation.{name}: expected a sequence of str, got {value!r:.80}")
    return tuple(value)


def _urls(images: Sequence[Any]) -> tuple[str, ...]:
    """The images as URLs; a lone one is a mistake that may look like a sequence."""
    if isinstance(images, str | bytes | bytearray) or hasattr(images, "mode"):
        raise ValueError(f"Observation.images: expected a sequence of images, got one {type(images).__name__}")
    try:
        return tuple(map(as_url, images))
    except (ValueError, TypeError) as error:
        raise ValueError(f"Observation.images: {error}") from None
