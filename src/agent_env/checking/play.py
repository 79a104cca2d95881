"""Plays of a bundle's tasks written down event by event, so that two of them can be compared."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agent_env.bundle import Bundle
from agent_env.checking.draw import drawn
from agent_env.demonstrator import play
from agent_env.episode import Ended, Episode
from agent_env.errors import EpisodeError
from agent_env.hosting.local import LocalHandle
from agent_env.observation import Observation
from agent_env.pictures import name_of
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

TASKS_PER_SPLIT = 8
MOST_CALLS = 1000

Player = Literal["demonstrator", "drawn"]
Doing = Callable[[str, float], None]
"""Told what is about to be done, and how many seconds that may take."""


class Plan(NamedTuple):
    """A task to play, by its id, and who plays it."""

    task: str
    player: Player

    def __str__(self) -> str:
        how = "by the demonstrator" if self.player == "demonstrator" else "with drawn arguments"
        return f"task {self.task!r} played {how}"


class Loaded(NamedTuple):
    """What a check needs to know of a bundle: the number of tasks by split, schemas by tool, the reward's bounds."""

    name: str
    splits: dict[str, int]
    tools: dict[str, Any]
    reward: str
    low: float
    high: float | None


def loaded(bundle: Bundle) -> Loaded:
    """Describe a bundle."""
    splits = {split: len(tasks) for split, tasks in bundle.splits.items()}
    tools: dict[str, Any] = {}
    for toolset in {toolset.hash: toolset for toolset in map(bundle.toolset, bundle.tasks("all"))}.values():
        for tool in toolset.tools:
            # Tasks may have tools of one name that differ.
            known = tools.get(tool.name, tool.parameters) == tool.parameters
            tools[tool.name if known else f"{tool.name} of toolset {toolset.hash}"] = tool.parameters
    reward = bundle.reward
    return Loaded(bundle.name, splits, tools, reward.name, reward.low, reward.high)


class Event(NamedTuple):
    """One exchange with the environment: what was done, and what came back (JSON, or text)."""

    did: str
    got: str


class Played(NamedTuple):
    """A play of a task.

    Args:
        error: what made it fail, with the `line` of the bundle's code that raised it; None if it did not.
        unseen: why a picture that the environment showed reaches no model; "" if all do.
    """

    events: list[Event]
    reward: float | None = None
    scores: dict[str, float] | None = None
    error: str | None = None
    line: str = ""
    unseen: str = ""


def plans(bundle: Bundle) -> list[Plan]:
    """Up to 8 tasks of each split, evenly spread, and one for each verifier that these leave out."""
    chosen: dict[int, None] = {}
    start = 0
    for tasks in bundle.splits.values():
        count = min(len(tasks), TASKS_PER_SPLIT)
        chosen |= {start + i * len(tasks) // count: None for i in range(count)}
        start += len(tasks)
    every = bundle.tasks("all")
    met = {kind for index in chosen for kind in _verifiers(every[index])}
    for index, task in enumerate(every):
        if _verifiers(task) - met:
            chosen[index] = None
            met |= _verifiers(task)
    players: list[Player] = ["drawn"] if bundle.demonstrator is None else ["demonstrator", "drawn"]
    return [Plan(every[index].id, player) for player in players for index in chosen]


def _verifiers(task: Task) -> set[tuple[str, str]]:
    """The code that scores `task`: type and function of its verifiers."""
    specs = [turn.verifier for turn in task.turns if turn.verifier is not None]
    return {(spec["type"], spec.get("function", "")) for spec in specs}


async def play_plan(bundle: Bundle, plan: Plan, doing: Doing) -> Played:
    """Play a task to its end and close it. What the environment fails is in the result."""
    task = next(task for task in bundle.tasks("all") if task.id == plan.task)
    episode = _Recorded(bundle, task, str(plan), doing)
    demonstrate = bundle.demonstrator if plan.player == "demonstrator" else None
    if demonstrate is None:
        demonstrate = drawn(bundle.toolset(task).tools, episode.offered)
    played = Played(episode.events)
    try:
        ended = (await play(episode, demonstrate, random.Random(task.id), 0.0)).ended
        played = played._replace(reward=ended.reward, scores=ended.scores)
    except EpisodeError as error:
        played = played._replace(error=str(error), line=_line(error, bundle.path))
    try:
        await episode.close()
    except EpisodeError as error:
        if played.error is None:
            played = played._replace(error=str(error), line=_line(error, bundle.path))
    return played._replace(unseen=episode.unseen)


class _Recorded(Episode):
    """An episode that writes down what it does, and lets the others go on between its moves."""

    def __init__(self, bundle: Bundle, task: Task, title: str, doing: Doing) -> None:
        super().__init__(bundle, task, LocalHandle(bundle))
        self.events: list[Event] = []
        self.offered: list[str] = []
        self.unseen = ""
        self._title, self._doing = title, doing

    async def start(self) -> Observation | None:
        await self._about("reset", self.bundle.limits.reset_timeout)
        seen = await super().start()
        self._saw("reset", seen, seen)
        return seen

    async def call(self, name: str, arguments: Any) -> ToolResult:
        if self.step_count >= MOST_CALLS:
            raise EpisodeError(f"the player made {MOST_CALLS} calls and no end is in sight")
        await self._about(f"tool {name!r}", self.bundle.limits.call_timeout)
        result = await super().call(name, arguments)
        self._saw(f"turn {self.turn.id!r}, {name}({_json(arguments)})", result.observation, result)
        return result

    async def end_turn(self, response: str) -> Turn | Ended:
        turn = self.turn.id
        await self._about(f"the score of turn {turn!r}", self.bundle.limits.score_timeout)
        ended = await super().end_turn(response)
        self._saw(f"the end of turn {turn!r} with {_json(response)}", None, ended if isinstance(ended, Ended) else None)
        return ended

    async def _about(self, what: str, seconds: float) -> None:
        self._doing(f"{self._title}: {what}", seconds)
        await asyncio.sleep(0)

    def _saw(self, did: str, observation: Observation | None, got: Any) -> None:
        told = dataclasses.asdict(got) if got is not None else None
        if observation is not None:
            self.offered.extend(observation.actions or ())
            assert told is not None
            images = [self._named(did, url) for url in observation.images]
            (told if got is observation else told["observation"])["images"] = images
        self.events.append(Event(did, _json(told)))

    def _named(self, did: str, url: str) -> str:
        """A picture by its name, which is short, or its URL; notes why no model could see it."""
        try:
            return name_of(url)
        except ValueError as error:
            self.unseen = self.unseen or f"{did}: {error}"
            return url


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _line(error: BaseException, folder: Path) -> str:
    """``env.py:12`` of the line in the bundle that raised what `error` reports, if one did."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{Path(inside[-1].filename).relative_to(folder)}:{inside[-1].lineno}" if inside else ""
