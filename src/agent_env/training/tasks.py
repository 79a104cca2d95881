"""What every trainer's rows are made of: a server's tasks, and the tools each is played with.

Tasks of one toolset have the same tools, so each toolset is asked about once, however many tasks there are. Our server
names a task's toolset and answers for it without playing. Any other server is learned from by opening the first task of
each toolset; its tasks that name no toolset count as one, so a server whose tools differ from task to task must name
them (a ``toolset`` in its description of a task).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_env.tools import END_TURN
from agent_env.training.sessions import Shared, TaskRow, probe, read_tasks
from agent_env.training.task_api import TaskApi

Json = dict[str, Any]

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many of its steps are done, of how many."""

END_TURN_TOOL: Json = {
    "type": "function",
    "function": {
        "name": END_TURN,
        "description": "End this turn with your answer to it. The next turn's question comes back, if there is one.",
        "parameters": {
            "type": "object",
            "properties": {"response": {"type": "string", "description": "Your answer to the question of this turn."}},
            "required": ["response"],
        },
    },
}
"""How a model opens the next turn of a task that has several."""


@dataclass(frozen=True)
class TasksAndTools:
    """A server's tasks and tools.

    Args:
        env: the environment's name.
        splits: each split's tasks, in order.
        toolsets: tools in OpenAI's format, without ``end_turn``, by toolset; None is the key of tasks that name none.
    """

    env: str
    splits: Mapping[str, tuple[TaskRow, ...]]
    toolsets: Mapping[str | None, tuple[Json, ...]]

    def tools(self, task: TaskRow) -> tuple[Json, ...]:
        """The tools a model playing this task is shown.

        Its toolset's; and ``end_turn`` unless the task is known to have one turn, because the reply that ends a
        conversation ends one turn only.
        """
        tools = self.toolsets[task.toolset]
        return tools if task.turns == 1 else (*tools, END_TURN_TOOL)

    @property
    def steps(self) -> tuple[str, ...]:
        """Every step id that a task of any split is known to be scored under, in order of appearance."""
        return tuple(dict.fromkeys(step for tasks in self.splits.values() for task in tasks for step in task.steps))


async def tasks_and_tools(shared: Shared, progress: Progress | None = None) -> TasksAndTools:
    """Read a server's tasks, and the tools of each toolset once.

    Args:
        progress: told of ``"reading tasks"`` and ``"learning toolsets"``.

    Raises:
        SessionError: what `sessions.read_tasks` and `sessions.probe` raise; a full server is waited for.
        InputError: tasks that cannot be played, all of them.
    """
    server = await read_tasks(shared, progress and (lambda done, total: progress("reading tasks", done, total)))
    examples: dict[str | None, TaskRow] = {}
    for tasks in server.splits.values():
        for task in tasks:
            examples.setdefault(task.toolset, task)
    toolsets: dict[str | None, tuple[Json, ...]] = {}
    async with TaskApi.open(shared) as api:
        for done, (key, task) in enumerate(examples.items()):
            if progress is not None:
                progress("learning toolsets", done, len(examples))
            tools = None if key is None else await api.toolset(key)
            toolsets[key] = await probe(shared, task.split, task.index) if tools is None else tools
    if progress is not None:
        progress("learning toolsets", len(examples), len(examples))
    return TasksAndTools(server.env, server.splits, toolsets)
