"""One game on ALFWorld's engine: TextWorld's PDDL environment with ALFWorld's names for things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alfworld.agents.utils.misc import Demangler
from textworld.core import EnvInfos
from textworld.envs.pddl import PddlEnv

from .instance import game_data

NOT_OFFERED = "help"
"""A command that the engine admits and that says nothing."""


@dataclass(frozen=True)
class Seen:
    """What the engine answers: its text, the admissible commands in order, and whether the goal is reached."""

    text: str
    commands: tuple[str, ...]
    won: bool


class Game:
    """A game that is being played.

    Args:
        data: see `game_data`.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._env = PddlEnv(EnvInfos(admissible_commands=True, won=True))
        self._env.load(dict(data))
        names = self._env._entity_infos
        demangler = Demangler(game_infos=names)
        for info in names.values():
            info.name = demangler.demangle_alfred_name(info.id)

    @classmethod
    def of(cls, instance: Mapping[str, Any]) -> Game:
        """The game of a task's ``env``."""
        return cls(game_data(instance))

    def start(self) -> Seen:
        """Begin, or begin again."""
        return self._seen(self._env.reset())

    def do(self, command: str) -> Seen:
        """Do a command; one that is not admissible changes nothing, and the engine says so."""
        return self._seen(self._env.step(command)[0])

    def inventory(self) -> str:
        """What is carried, in the engine's words; costs no step."""
        state = self._env._pddl_state
        held = [fact.arguments[1].name for fact in state.facts if fact.name == "holds"]
        return ", ".join(sorted(self._env._entity_infos[name].name for name in held)) or "nothing"

    def plan(self) -> tuple[str, ...]:
        """The planner's commands from here to the goal; none if it finds no way."""
        return tuple(self._env._pddl_state.replan(self._env._entity_infos))

    def close(self) -> None:
        """Let go of the engine."""
        self._env.close()

    def _seen(self, state: Any) -> Seen:
        commands = tuple(command for command in state["admissible_commands"] if command != NOT_OFFERED)
        return Seen(state["feedback"], commands, bool(state["won"]))
