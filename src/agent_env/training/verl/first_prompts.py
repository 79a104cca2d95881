"""What a model is shown first of each task, and how long it is, before anything of the environment is known."""

from __future__ import annotations

import json
from typing import Any

from agent_env.errors import InputError, Problem
from agent_env.step_prompt import StepPrompt, View
from agent_env.training.actions import text_tags
from agent_env.training.step_options import StepOptions
from agent_env.training.step_player import messages_of
from agent_env.training.task_api import TaskRow
from agent_env.training.tasks import Progress, TasksAndTools
from agent_env.training.verl.prompts import PromptCounter

SHOWN = 20
"""Problems of one kind that are spelled out before the others are counted."""

Json = dict[str, Any]


class ShownTools:
    """Each task's tools, parsed and as one JSON string, made once for all tasks that share them."""

    def __init__(self, tasks: TasksAndTools) -> None:
        self._tasks = tasks
        self._made: dict[tuple[str | None, bool], tuple[list[Json], str]] = {}

    def of(self, task: TaskRow) -> tuple[list[Json], str]:
        """The tools, and their text."""
        key = (task.toolset, task.turns == 1)
        if key not in self._made:
            tools = list(self._tasks.tools(task))
            self._made[key] = tools, json.dumps(tools, ensure_ascii=False)
        return self._made[key]


class FirstPrompts:
    """The messages and tools that a model is shown first.

    Args:
        tools: of the tasks.
        steps: the options of the step layout; None for a conversation.
    """

    def __init__(self, tools: ShownTools, steps: StepOptions | None) -> None:
        self._tools, self._steps = tools, steps
        self._template = None if steps is None else StepPrompt(steps.step_prompt)
        self._none: list[Json] = []

    def of(self, task: TaskRow) -> tuple[list[Json], list[Json]]:
        """Messages and tools."""
        tools = self._tools.of(task)[0]
        if self._template is None or self._steps is None:
            return messages_of(task.system_prompt, task.prompt), tools
        tags = text_tags(tools, self._steps.tags)
        view = View(task.prompt, "", 1, self._steps.max_steps, tags=[tag.name for tag in tags])
        messages = messages_of(task.system_prompt, self._template.render(view))
        return messages, self._none if tags else tools


def longest_prompt(
    tasks: TasksAndTools, first: FirstPrompts, counter: PromptCounter, limit: int | None, tell: Progress
) -> int:
    """Tokens of the longest prompt with its tools.

    Args:
        limit: tokens that a prompt may have; None for any number.
        tell: told of the progress.

    Raises:
        InputError: with the prompts that are over the limit.
    """
    # A task is in its own split and in "all": what is the same is counted once.
    distinct: dict[tuple[str, str, str | None, bool], tuple[list[Json], list[Json]]] = {}
    for rows in tasks.splits.values():
        for task in rows:
            if _shown_key(task) not in distinct:
                distinct[_shown_key(task)] = first.of(task)
    counts = counter.count(list(distinct.values()), lambda done, total: tell("counting tokens", done, total))
    tokens = dict(zip(distinct, counts, strict=True))
    if limit is not None:
        over: list[Problem] = []
        for split, rows in tasks.splits.items():
            # Its tasks are those of the other splits, where there are others.
            for task in rows if split != "all" or len(tasks.splits) == 1 else ():
                count = tokens[_shown_key(task)]
                if count > limit:
                    where = f"{task.split}[{task.index}] ({task.id})"
                    over.append(Problem(where, f"its prompt has {count} tokens with its tools"))
        if over:
            raise InputError(_over(over, limit))
    return max(counts, default=0)


def _shown_key(task: TaskRow) -> tuple[str, str, str | None, bool]:
    """What tasks with the same first prompt and tools share."""
    return task.system_prompt, task.prompt, task.toolset, task.turns == 1


def _over(problems: list[Problem], limit: int) -> list[Problem]:
    more = len(problems) - SHOWN
    shown = problems[:SHOWN] + ([Problem("", f"and {more} more")] if more > 0 else [])
    what = f"{len(problems)} prompts are over {limit} tokens; nothing was written"
    fix = "shorten them, or raise verl's data.max_prompt_length and with it the writer's --max-prompt-length"
    return [Problem("", what, fix), *shown]
