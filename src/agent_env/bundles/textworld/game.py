"""One game on TextWorld's engine: a Z-machine that plays the compiled game, and what TextWorld knows of its state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import textworld

from .making import compiled

_STATUS = re.compile(r"\s*>\s*-= .*? =-\s*-?\d+/-?\d+\s*\Z")
_WHAT_NOW = re.compile(r"\s*Would you like to RESTART.*", re.DOTALL)
_END = re.compile(r"[ ]*(\*\*\* .* \*\*\*)")


@dataclass(frozen=True)
class Seen:
    """What the engine answers: text, admissible commands in order, what the player sees and has, and the end."""

    text: str
    commands: tuple[str, ...]
    around: str
    won: bool
    lost: bool


class Game:
    """A game that is being played, by the ``kind``, ``level`` and ``seed`` of a task's ``env``.

    Args:
        plans: whether `plan` is asked for, which makes every step a little dearer.
    """

    def __init__(self, instance: Mapping[str, Any], *, plans: bool = False) -> None:
        wanted = dict.fromkeys(("admissible_commands", "description", "inventory", "won", "lost"), True)
        infos = textworld.EnvInfos(**wanted, policy_commands=plans)
        file = compiled(instance["kind"], instance["level"], instance["seed"])
        self._env = textworld.start(str(file), infos)
        self._state: Any = None

    def start(self) -> Seen:
        """Begin: shows the room, without the banner and the objective, which the task has."""
        self._state = self._env.reset()
        return self._seen(self._state["description"])

    def do(self, command: str) -> Seen:
        """Do a command."""
        self._state = self._env.step(command)[0]
        return self._seen(self._state["feedback"])

    def plan(self) -> tuple[str, ...]:
        """Commands from here to the goal; none if there is no way any more."""
        return tuple(self._state["policy_commands"] or ())

    def close(self) -> None:
        """Let go of the engine."""
        self._env.close()

    def _seen(self, text: str) -> Seen:
        state = self._state
        around = f"{_clean(state['description'])}\n{_clean(state['inventory'])}"
        return Seen(_clean(text), tuple(state["admissible_commands"]), around, bool(state["won"]), bool(state["lost"]))


def _clean(text: str) -> str:
    """Without the status line, the question what to do after the end, and empty lines in a row."""
    text = _END.sub(r"\1", _WHAT_NOW.sub("", _STATUS.sub("", text)))
    return re.sub(r"\n\s*\n", "\n\n", text).strip()
