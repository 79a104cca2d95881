"""The environment: a piece of code a step, run in a world of its own; AppWorld's evaluation is the score."""

from __future__ import annotations

import re

from agent_env import Environment, Observation, Task, tool

from .data import data_folder
from .worlds import CodeStopped, World

DONE = 10.0
STEPS = 50
TURN = "task"
MOST_SHOWN = 6_000
"""Characters of what code printed that are shown."""
STOPPED = "Execution failed. The code took too long and could not be interrupted, so the task is over."


class AppWorld(Environment):
    """The task ``task.env["task"]``. Nothing in it is drawn: the seed of an episode changes nothing."""

    world: World | None = None

    async def reset(self, task: Task, seed: int) -> Observation:
        self.steps = 0
        self.verdict: dict[str, float] | None = None
        self.world = await World.open(data_folder(), task.env["task"])
        now = task.env["datetime"].replace("T", " ")
        return self._observation(f"It is {now}. No code was run so far.")

    @tool
    async def execute(self, code: str) -> Observation:
        """Run a piece of Python code, and read what it prints.

        Args:
            code: what to run; variables of earlier pieces are still there.
        """
        assert self.world is not None
        self.steps += 1
        try:
            said = await self.world.execute(_bare(code))
            completed = await self.world.completed()
        except CodeStopped:
            self.verdict = {"success": 0.0, "tests": 0.0}
            info = {"success": False, "tests": 0.0}
            return Observation(STOPPED, terminated=True, info=info)
        if not completed and self.steps < STEPS:
            return self._observation(_cut(said))
        verdict = await self._judged()
        success = verdict["success"] == 1.0
        return self._observation(
            _cut(said),
            reward=DONE if success else 0.0,
            terminated=completed,
            truncated=not completed,
            info={"success": success, "tests": verdict["tests"]},
        )

    async def score(self, reply: str) -> dict[str, float]:
        """``success``: 1 if every test of AppWorld's evaluation passes, else 0; ``tests``: the share that does."""
        return await self._judged()

    async def close(self) -> None:
        """End the world."""
        if self.world is not None:
            await self.world.close()

    async def _judged(self) -> dict[str, float]:
        if self.verdict is None:
            assert self.world is not None
            said = await self.world.evaluate()
            self.verdict = {"success": float(said.success), "tests": said.passed / max(1, said.tests)}
        return self.verdict

    def _observation(
        self,
        text: str,
        reward: float = 0.0,
        terminated: bool = False,
        truncated: bool = False,
        info: dict[str, object] | None = None,
    ) -> Observation:
        assert self.world is not None
        # Many pieces of code print the same; what the apps hold tells their states apart.
        return Observation(
            text,
            state=f"{text}\n{self.world.state()}",
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=info or {},
        )


def _bare(code: str) -> str:
    """Code without the fence that models like to put around it."""
    fenced = re.fullmatch(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?\s*```\s*", code, re.DOTALL)
    return fenced[1] if fenced else code


def _cut(said: str) -> str:
    said = said.rstrip()
    if len(said) <= MOST_SHOWN:
        return said
    return f"{said[:MOST_SHOWN]}\n… ({len(said) - MOST_SHOWN:,} characters more are not shown: print less at a time)"
