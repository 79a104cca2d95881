"""A scripted player: how a bundle shows its tasks being played, for smoke tests and warm starts.

A bundle's ``demonstrator.py`` defines ``demonstrate(turn, rng, error_rate)``, a generator called once per turn. It
yields its moves: a `Call`, a list of them (made at once), and at last a `Reply`. After each move but the last it is
sent the texts that came back, one per call; a `Look`, which is no move, is sent the text that the environment began
with, and a `Given`, which is none either, what it was given. `error_rate` in 0..1 is how often it should err, drawn
from `rng`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agent_env.episode import Ended, Episode
from agent_env.errors import EpisodeError
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult


@dataclass(frozen=True)
class Call:
    """A tool call."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What does the environment begin with? Answered with the text of its first observation ("" if it has none)."""


@dataclass(frozen=True)
class Given:
    """What was the environment given? Answered with ``{"env": task.env, "seed": of the episode}`` as JSON.

    For a player that knows more than an agent does: where something is hidden, which plan leads to the goal.
    """


@dataclass(frozen=True)
class Reply:
    """The text that ends a turn."""

    text: str


Move: TypeAlias = Call | list[Call] | Look | Given | Reply
Play: TypeAlias = Generator[Move, list[str], None]
Demonstrator: TypeAlias = Callable[[Turn, random.Random, float], Play]


@dataclass(frozen=True)
class PlayedMove:
    """Calls made at once, and what answered each."""

    calls: tuple[Call, ...]
    answers: tuple[ToolResult, ...]


@dataclass(frozen=True)
class PlayedTurn:
    """A turn as it was played."""

    turn: Turn
    moves: tuple[PlayedMove, ...]
    reply: str


@dataclass(frozen=True)
class Demonstration:
    """An episode as the demonstrator played it; `observation` is the environment's first."""

    task: Task
    observation: Observation | None
    turns: tuple[PlayedTurn, ...]
    ended: Ended


async def play(episode: Episode, demonstrate: Demonstrator, rng: random.Random, error_rate: float) -> Demonstration:
    """Start `episode` and play it to its end (it is not closed).

    Raises:
        EpisodeError: the environment failed, or the demonstrator stopped without a Reply or yielded something else.
    """
    observation = await episode.start()
    turns = []
    while True:
        turn = episode.turn
        first = "" if observation is None else observation.text
        moves, reply = await _play_turn(episode, demonstrate(turn, rng, error_rate), first)
        turns.append(PlayedTurn(turn, tuple(moves), reply))
        ended = await episode.end_turn(reply)
        if isinstance(ended, Ended):
            return Demonstration(episode.task, observation, tuple(turns), ended)


async def _play_turn(episode: Episode, script: Play, first: str) -> tuple[list[PlayedMove], str]:
    moves: list[PlayedMove] = []
    answers: list[str] | None = None
    while not isinstance(move := _next_move(episode.turn, script, answers), Reply):
        if isinstance(move, Look):
            answers = [first]
            continue
        if isinstance(move, Given):
            answers = [json.dumps({"env": episode.task.env, "seed": episode.seed})]
            continue
        calls = [move] if isinstance(move, Call) else move
        results = [await episode.call(call.name, call.arguments) for call in calls]
        answers = [result.text for result in results]
        moves.append(PlayedMove(tuple(calls), tuple(results)))
    script.close()
    return moves, move.text


def _next_move(turn: Turn, script: Play, answers: list[str] | None) -> Move:
    try:
        move = next(script) if answers is None else script.send(answers)
    except StopIteration:
        raise EpisodeError(f"the demonstrator ended turn {turn.id!r} without a Reply") from None
    except Exception as error:
        raise EpisodeError(f"the demonstrator raised {type(error).__name__}: {error} in turn {turn.id!r}") from error
    listed = move if isinstance(move, list) else [move]
    if isinstance(move, Look | Given | Reply) or (listed and all(isinstance(call, Call) for call in listed)):
        return move
    raise EpisodeError(
        f"the demonstrator yielded {move!r} in turn {turn.id!r}: a Call, a list of them, a Look, a Given or a Reply is "
        "due"
    )
