"""A bundle: a folder of tasks and the environment that plays them.

::

    mybundle/
      bundle.toml       name, env = "module:Class", splits, reward, hosting, limits   (see `agent_env.manifest`)
      env.py            the environment's module
      tasks/<split>.jsonl, or tasks.py with tasks(split)
      step_prompt.md    optional: the template of the step layout
      demonstrator.py   optional: a scripted player                                   (see `agent_env.demonstrator`)

`load_bundle` reports everything that is wrong with a folder at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_env import rewards
from agent_env.environment import Environment
from agent_env.errors import BundleError, InputError, Problem, Problems
from agent_env.install.needs import no_data, not_installed
from agent_env.loading import BundleModules, LoadError, leads_outside
from agent_env.manifest import Hosting, Limits, ManifestFile, Steps, read_manifest
from agent_env.rewards import Reward
from agent_env.task import Task, Turn
from agent_env.tasksource import Placed, line_problems, read_tasks
from agent_env.tools import END_TURN
from agent_env.toolsets import Toolset, Toolsets
from agent_env.validation import suggestion
from agent_env.verifiers import Env, Verifier, compile_verifier

if TYPE_CHECKING:
    from agent_env.demonstrator import Demonstrator

BUILT_IN = Path(__file__).resolve().parent / "bundles"


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle. Pickling one keeps its path alone: it is loaded anew where it is unpickled.

    Args:
        splits: tasks by split, in the order of bundle.toml.
        environment: the class; an instance plays one episode.
        reward: from an episode's scores to its reward.
        demonstrator: ``demonstrate`` of demonstrator.py, or None.
        step_prompt: text of step_prompt.md, or None.
        steps: what bundle.toml says of the step layout.
        draw_seeds: whether a training may play its tasks with other seeds than their own.
    """

    name: str
    description: str
    path: Path
    splits: dict[str, Sequence[Task]]
    environment: type[Environment]
    reward: Reward
    hosting: Hosting
    limits: Limits
    demonstrator: Demonstrator | None
    step_prompt: str | None
    steps: Steps
    draw_seeds: bool
    _modules: BundleModules = field(repr=False)
    _toolsets: Toolsets = field(repr=False)

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split; ``all`` is every split in order. Raises InputError for an unknown split."""
        if split == "all":
            return [task for tasks in self.splits.values() for task in tasks]
        if split not in self.splits:
            known = ", ".join(["all", *self.splits])
            raise InputError(f"bundle {self.name!r} has no split {split!r}; its splits are {known}")
        return self.splits[split]

    def to_demonstrate(self, split: str) -> Sequence[Task]:
        """The tasks of a split, for the demonstrator to play.

        Raises:
            InputError: there is no demonstrator, no such split, or no task in it; all problems at once.
        """
        problems = Problems()
        if self.demonstrator is None:
            what = f"bundle {self.name!r} has no demonstrator.py, and a warm start imitates one"
            fix = "write it (the built-in bundles show how), or start from a model that can already play"
            problems.append(Problem("", what, fix))
        tasks = problems.of(lambda: self.tasks(split))
        if tasks is not None and not tasks:
            problems.append(Problem("", f"split {split!r} of bundle {self.name!r} has no task to demonstrate"))
        problems.settle()
        return tasks or ()

    @property
    def step_layout(self) -> dict[str, Any]:
        """What this bundle says of the step layout, under the names of its options; None for what it leaves open."""
        return {
            "bundle": self.name,
            "step_prompt": self.step_prompt,
            "tags": self.steps.tags,
            "memory": self.steps.memory,
            "max_steps": self.steps.max_steps,
        }

    def toolset(self, task: Task) -> Toolset:
        """The tools `task` is played with."""
        return self._toolsets.of(task)

    def verifier(self, turn: Turn) -> Verifier:
        """What scores `turn`. Raises InputError if the turn has no verifier, or one that cannot be used."""
        if turn.verifier is None:
            raise InputError(f"turn {turn.id!r} has no verifier")
        compiled = compile_verifier(turn.verifier, f"turn {turn.id!r} verifier", self._modules.resolve)
        if isinstance(compiled, Verifier):
            return compiled
        raise InputError(compiled)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return load_bundle, (self.path,)


def load_bundle(path: str | Path) -> Bundle:
    """Load a bundle from its folder, or a built-in one by its name.

    Raises:
        BundleError: with every problem found, each with its file and, where there is one, its line.
    """
    folder = find_bundle(path)
    if (problem := leads_outside(folder, folder / "bundle.toml", "bundle.toml")) is not None:
        raise BundleError(problem)
    try:
        manifest = read_manifest(folder / "bundle.toml")
    except BundleError as error:
        # Its code is not run before it is known which; lines are data, and can be read all the same.
        raise BundleError([*error.problems, *line_problems(folder)]) from error
    return _Loader(folder, manifest).load()


def built_in_bundles() -> list[str]:
    """Names of the bundles that come with the package."""
    return sorted(folder.parent.name for folder in BUILT_IN.glob("*/bundle.toml"))


def find_bundle(path: str | Path) -> Path:
    """The folder of a bundle given by its path or by a built-in's name. Raises BundleError if there is none."""
    folder = Path(path)
    if (folder / "bundle.toml").is_file():
        return folder.resolve()
    if str(path) in built_in_bundles():
        return BUILT_IN / str(path)
    what = "is a folder without a bundle.toml" if folder.is_dir() else "is no folder"
    names = ", ".join(built_in_bundles())
    raise BundleError(Problem(str(path) or "''", what, f"`agent-env new PATH` makes a bundle; built in are: {names}"))


class _Loader:
    """Loads one folder, gathering problems on the way."""

    def __init__(self, folder: Path, file: ManifestFile) -> None:
        self.folder, self.manifest, self.where = folder, file.manifest, file.where
        self.modules = BundleModules(folder)
        self.problems: list[Problem] = []

    def load(self) -> Bundle:
        manifest = self.manifest
        lacks = [not_installed(self.folder, manifest, self.where("install")), no_data(manifest.data)]
        if problems := [problem for problem in lacks if problem is not None]:
            raise BundleError(problems)
        environment = self._environment()
        toolsets = self._toolsets(environment)
        splits = read_tasks(self.modules, manifest.splits, self.problems)
        placed = [item for items in splits.values() for item in items]
        known = self._every_toolset(toolsets, placed)
        self._check_tasks(placed, environment)
        reward = self._reward(placed)
        demonstrator = self._demonstrator()
        step_prompt = self._step_prompt()
        self._check_tags(known)
        self._check_memory()
        if self.problems or environment is None or toolsets is None or reward is None:
            raise BundleError(self.problems)
        return Bundle(
            name=manifest.name,
            description=manifest.description,
            path=self.folder,
            splits={split: [item.task for item in items] for split, items in splits.items()},
            environment=environment,
            reward=reward,
            hosting=manifest.hosting,
            limits=manifest.limits,
            demonstrator=demonstrator,
            step_prompt=step_prompt,
            steps=manifest.steps,
            draw_seeds=manifest.draw_seeds,
            _modules=self.modules,
            _toolsets=toolsets,
        )

    def _problem(self, where: str, what: str, fix: str = "") -> None:
        self.problems.append(Problem(where, what, fix))

    def _resolve(self, reference: str, where: str) -> object | None:
        try:
            found: object = self.modules.resolve(reference)
        except LoadError as error:
            self._problem(error.problem.where or where, error.problem.what, error.problem.fix)
            return None
        return found

    def _environment(self) -> type[Environment] | None:
        where = self.where("env")
        found = self._resolve(self.manifest.env, where)
        if found is None:
            return None
        if not (isinstance(found, type) and issubclass(found, Environment)):
            self._problem(where, f"{self.manifest.env} is no subclass of agent_env.Environment", "derive it from that")
            return None
        for call, arguments, written in ((found, (), "__init__(self)"), (found.reset, 3, "reset(self, task, seed)")):
            values = arguments if isinstance(arguments, tuple) else (None,) * arguments
            try:
                inspect.signature(call).bind(*values)
            except TypeError as error:
                self._problem(f"{self.manifest.env} {written.split('(')[0]}", str(error), f"define {written}")
        if found.reset is Environment.reset:
            self._problem(self.manifest.env, "it has no reset", "define reset(self, task, seed)")
        return found

    def _toolsets(self, environment: type[Environment] | None) -> Toolsets | None:
        if environment is None:
            return None
        try:
            return Toolsets(environment)
        except InputError as error:
            self.problems += error.problems
            return None

    def _every_toolset(self, toolsets: Toolsets | None, placed: list[Placed]) -> list[Toolset]:
        """Every toolset that there is, once; the first one that has problems is the last that is asked for."""
        found: dict[str, Toolset] = {}
        if toolsets is None:
            return []
        try:
            for item in placed:
                toolset = toolsets.of(item.task)
                found.setdefault(toolset.hash, toolset)
        except InputError as error:
            self.problems += error.problems
        except Exception as error:
            self._problem(f"{self.manifest.env} tools", f"{type(error).__name__}: {error}")
        return list(found.values())

    def _check_tasks(self, placed: list[Placed], environment: type[Environment] | None) -> None:
        if not placed and not self.problems:
            self._problem("tasks", "the bundle has no task")
        first: dict[str, str] = {}
        for item in placed:
            if item.task.id in first:
                self._problem(item.where, f"the id {item.task.id!r} is taken by {first[item.task.id]}", "rename it")
            first.setdefault(item.task.id, item.where)
            for index, turn in enumerate(item.task.turns):
                if turn.verifier is not None:
                    self._check_verifier(turn, f"{item.where} turns[{index}].verifier", environment)

    def _check_verifier(self, turn: Turn, where: str, environment: type[Environment] | None) -> None:
        assert turn.verifier is not None
        compiled = compile_verifier(turn.verifier, where, self.modules.resolve)
        if isinstance(compiled, list):
            self.problems += compiled
        elif isinstance(compiled, Env) and environment is not None and environment.score is Environment.score:
            self._problem(where, f"{environment.__name__} has no score", "define score(self, reply)")

    def _reward(self, placed: list[Placed]) -> Reward | None:
        where, written = self.where("reward"), self.manifest.reward
        if isinstance(written, dict):
            reward = rewards.weighted(written)
            if not written:
                self._problem(where, "the table of weights is empty", 'write reward = "mean"')
        elif written in ("mean", "sum"):
            reward = rewards.mean() if written == "mean" else rewards.total()
        elif written is None:
            reward = rewards.only()
        elif ":" in written:
            function = self._resolve(written, where)
            if function is None:
                return None
            if not callable(function):
                self._problem(where, f"{written} is not a function of the scores")
                return None
            reward = rewards.function(written, function)
        else:
            reward = rewards.step(written)
        self._check_reward(reward, placed, where)
        return reward

    def _check_reward(self, reward: Reward, placed: list[Placed], where: str) -> None:
        """Every task must record what the reward needs; an environment may record more under ``turn/name``."""
        for item in placed:
            scored = [turn for turn in item.task.turns if turn.verifier is not None]
            ids = [turn.id for turn in scored]
            named = tuple(f"{t.id}/" for t in scored if t.verifier is not None and t.verifier.get("type") == "env")
            if not scored:
                self._problem(item.where, "no turn has a verifier, so it would end without a reward", "add one")
                continue
            if self.manifest.reward is None and len(scored) > 1:
                self._problem(where, f"missing, and {item.where} has {len(scored)} scores", 'write reward = "mean"')
                return
            for step in reward.steps:
                if step not in ids and not step.startswith(named):
                    fix = suggestion(step, [*ids, *([] if isinstance(self.manifest.reward, dict) else ["mean", "sum"])])
                    self._problem(where, f"step {step!r} is not scored by {item.where}", fix)
                    return

    def _demonstrator(self) -> Demonstrator | None:
        if not self.modules.has("demonstrator"):
            return None
        found = self._resolve("demonstrator:demonstrate", "demonstrator.py")
        if found is not None and not inspect.isgeneratorfunction(found):
            self._problem("demonstrator.py demonstrate", "it is no generator function", "yield Call and Reply")
            return None
        return found

    def _check_tags(self, toolsets: list[Toolset]) -> None:
        """A tag's text is all that its tool is told, in every task."""
        told = [{tool.name: tool.parameters for tool in toolset.tools} for toolset in toolsets]
        texts = [name for name in (told[0] if told else ()) if all(_takes_a_text(tools.get(name)) for tools in told)]
        for tag, tool in (self.manifest.steps.tags or {}).items() if toolsets else ():
            where = self.where("steps", "tags", tag)
            if tag.casefold() == "think":
                self._problem(where, "<think> is what thoughts stand in", "name the tag otherwise")
            if tool not in (*texts, END_TURN):
                what = "does not require one text" if tool in told[0] else "is no tool"
                self._problem(where, f"{tool!r} {what}", f"name one that does: {', '.join([*texts, END_TURN])}")

    def _check_memory(self) -> None:
        """A memory of the bundle's own is a class with `add` and `render`; names are a training's to know."""
        written, where = self.manifest.steps.memory, self.where("steps", "memory")
        if written is None or ":" not in written or (found := self._resolve(written, where)) is None:
            return
        lacks = [name for name in ("add", "render") if not callable(getattr(found, name, None))]
        if not isinstance(found, type) or lacks:
            what = f"has no {' and no '.join(lacks)}" if isinstance(found, type) else "is no class"
            self._problem(
                where, f"{written} {what}", "define add(self, past) and render(self, observation, budget, size)"
            )

    def _step_prompt(self) -> str | None:
        text = self._text("step_prompt.md")
        if text is not None:
            from agent_env.step_prompt import StepPrompt  # jinja2 takes a while to import, and few bundles have one

            try:
                StepPrompt(text)
            except InputError as error:
                self.problems += error.problems
        return text

    def _text(self, name: str) -> str | None:
        file = self.folder / name
        if not file.is_file():
            return None
        if (problem := leads_outside(self.folder, file, name)) is not None:
            self.problems.append(problem)
            return None
        return file.read_text(encoding="utf-8")


def _takes_a_text(parameters: dict[str, Any] | None) -> bool:
    """Whether a tool's one required argument is a text."""
    if parameters is None:
        return False
    return [parameters["properties"][name].get("type") for name in parameters.get("required", ())] == ["string"]
