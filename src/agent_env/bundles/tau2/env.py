"""The environment: a domain's own tools, and perhaps a customer to talk to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent_env import DescribedEnvironment, Observation, Task, ToolSpec
from agent_env.hosting.engine import engine_of
from agent_env.training.actions import split_thought

from . import catalogue
from .customer import customer

HERE = Path(__file__).parent
_SIGNAL = re.compile("###[A-Z-]+###")
"""How the one who plays the customer says that the conversation is over."""
CALLS = 100
"""An episode's most calls: 200 messages, as many as tau2-bench allows."""


class Tau2(DescribedEnvironment):
    """The task of ``task.env``, played in a process of tau2-bench's."""

    @classmethod
    def tools(cls, task: Task) -> tuple[ToolSpec, ...]:
        """Those of the domain; the device's too where there is no customer, else ``message_user``."""
        return catalogue.tools(task.env["domain"], solo=task.env["solo"])

    async def reset(self, task: Task, seed: int) -> Observation:
        who = None if task.env["solo"] else customer()
        if who is None and not task.env["solo"]:
            raise RuntimeError("the model that plays the customer is no longer named, see docs/environments.md")
        self.calls, self.solo = 0, who is None
        self.engine = await engine_of(HERE).open()
        env = task.env
        return self._seen(
            await self.engine.ask("start", domain=env["domain"], task=env["task"], seed=seed, customer=who)
        )

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.calls += 1
        if name == catalogue.MESSAGE.name:
            return self._seen(await self.engine.ask("say", text=arguments["message"]))
        return self._seen(await self.engine.ask("call", name=name, arguments=arguments))

    async def score(self, reply: str) -> float:
        """tau2-bench's reward: the product of what the task names among databases, assertions, actions and words."""
        last = split_thought(reply)[1]
        return float(await self.engine.ask("score", reply=last, given_up=self.calls >= CALLS))

    def close(self) -> None:
        """Let go of the engine."""
        if hasattr(self, "engine"):
            self.engine.close()

    def _seen(self, seen: dict[str, str]) -> Observation:
        left = seen["ended"] == "user_stop"
        text = seen["text"]
        if left:
            text = _SIGNAL.sub("", text).strip() or "The customer has ended the conversation."
        return Observation(
            text,
            # What was said to a customer is no part of any database.
            state=seen["held"] if self.solo else f"{seen['held']}\n{text}",
            terminated=left,
            truncated=not left and (bool(seen["ended"]) or self.calls >= CALLS),
        )
