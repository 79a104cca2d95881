"""What a server offers: its splits, the tasks in them, and where each one's environment runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_env import rewards
from agent_env.bundle import Bundle
from agent_env.errors import BundleError, Problem
from agent_env.hosting.host import Host, host_for
from agent_env.task import Task
from agent_env.toolsets import Toolset

ALL = "all"
"""The split that holds every other one's tasks, in order."""

RewardChoice = str | Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class Entry:
    """A task that can be played: where it stands, its bundle, and the host of its environments."""

    split: str
    index: int
    task: Task
    bundle: Bundle
    host: Host

    @property
    def toolset(self) -> Toolset:
        return self.bundle.toolset(self.task)

    def described(self) -> dict[str, Any]:
        """The task as the Task API tells of it."""
        return {
            "id": self.task.id,
            "name": self.task.name or self.task.id,
            "index": self.index,
            "prompt": self.task.turns[0].prompt,
            "system_prompt": self.task.system_prompt,
            "toolset": self.toolset.hash,
            "turns": len(self.task.turns),
            "steps": [turn.id for turn in self.task.turns if turn.verifier is not None],
            "draw_seeds": self.bundle.draw_seeds,
        }


class Catalogue:
    """The splits of one bundle, or those a mapping of split to bundle names, each with ``all`` besides.

    Args:
        reward: in place of the bundle's own: a step id, ``mean``, ``sum``, or a function of an episode's scores.
        capacity: episodes at once.

    Raises:
        BundleError: a mapping that is empty or names ``all``; a step that some task does not score.
    """

    def __init__(
        self, source: Bundle | Mapping[str, Bundle], *, reward: RewardChoice | None = None, capacity: int
    ) -> None:
        tasks: dict[str, tuple[Bundle, Sequence[Task]]]
        if isinstance(source, Bundle):
            bundles = [source]
            tasks = {split: (source, source.tasks(split)) for split in source.splits}
        else:
            _check_mapping(source)
            bundles = list({id(bundle): bundle for bundle in source.values()}.values())
            tasks = {split: (bundle, bundle.tasks(ALL)) for split, bundle in source.items()}
        rewarded = {id(bundle): _rewarded(bundle, reward) for bundle in bundles}
        hosts = {key: host_for(bundle, capacity) for key, bundle in rewarded.items()}
        self.name = "-".join(dict.fromkeys(bundle.name for bundle in bundles))
        self.description = " / ".join(dict.fromkeys(bundle.description for bundle in bundles if bundle.description))
        self.hosts = tuple(hosts.values())
        self.step_layouts = [bundle.step_layout for bundle in bundles]
        self.splits: dict[str, list[Entry]] = {ALL: []}
        self.toolsets: dict[str, Toolset] = {}
        for split, (bundle, members) in tasks.items():
            played, host = rewarded[id(bundle)], hosts[id(bundle)]
            self.splits[split] = [Entry(split, i, task, played, host) for i, task in enumerate(members)]
            self.splits[ALL] += [
                dataclasses.replace(entry, split=ALL, index=len(self.splits[ALL]) + i)
                for i, entry in enumerate(self.splits[split])
            ]
            for entry in self.splits[split]:
                self.toolsets.setdefault(entry.toolset.hash, entry.toolset)

    def entry(self, split: str, index: int) -> Entry:
        """The task at `index` of `split`. Raises LookupError saying what there is instead."""
        entries = self.entries(split)
        if not 0 <= index < len(entries):
            raise LookupError(f"split {split!r} has {len(entries)} tasks; there is none at index {index}")
        return entries[index]

    def entries(self, split: str) -> list[Entry]:
        """The tasks of `split`. Raises LookupError naming the splits there are."""
        if split not in self.splits:
            raise LookupError(f"there is no split {split!r:.80}; the splits are {', '.join(self.splits)}")
        return self.splits[split]


def _check_mapping(source: Mapping[str, Bundle]) -> None:
    problems = []
    if not source:
        problems.append(Problem("the mapping of splits", "is empty", "give at least one {split: bundle}"))
    if ALL in source:
        problems.append(Problem(f"split {ALL!r}", "is every other split together", "name it otherwise"))
    if problems:
        raise BundleError(problems)


def _rewarded(bundle: Bundle, reward: RewardChoice | None) -> Bundle:
    """`bundle` with its reward replaced by the one asked for, if one is."""
    if reward is None:
        return bundle
    if callable(reward):
        chosen = rewards.function(getattr(reward, "__qualname__", repr(reward)), reward)
    elif reward in ("mean", "sum"):
        chosen = rewards.mean() if reward == "mean" else rewards.total()
    else:
        chosen = rewards.step(reward)
    problems = [
        Problem(f"task {task.id!r}", f"does not score the step {step!r} that the reward needs")
        for step in chosen.steps
        for task in bundle.tasks(ALL)
        if step.partition("/")[0] not in {turn.id for turn in task.turns if turn.verifier is not None}
    ]
    if problems:
        raise BundleError(problems)
    return dataclasses.replace(bundle, reward=chosen)
