"""The environment: one action is a search or a click; a purchase ends the episode."""

from __future__ import annotations

import msgspec

from agent_env import Observation, Task, TextEnvironment

from .catalogue import shop
from .pages import SEARCH, SEPARATOR
from .product import Goal
from .session import Session

STEPS = 15
FULL_SCORE = 10.0
QUERY = "search[<your query>]"
NO_ACTION = f"There is no such action here: write {QUERY}, or click[...] with what the page offers."
USED_UP = "No steps are left."


class WebShop(TextEnvironment):
    """The shop, for the customer whose goal is ``task.env["goal"]`` (see `product.Goal`); the seed changes nothing."""

    def reset(self, task: Task, seed: int) -> Observation:
        self.session = Session(shop(), msgspec.convert(task.env["goal"], Goal))
        self.steps_left = STEPS
        return self._observation("")

    def step(self, action: str) -> Observation:
        """Do an action; one that the page does not offer changes nothing and takes a step as well."""
        self.steps_left -= 1
        done = self.session.act(action.strip().lower())
        return self._observation("" if done else NO_ACTION)

    def score(self, reply: str) -> dict[str, float]:
        """``success``: 1 if what was bought fits in everything, else 0. ``task_score``: WebShop's reward, in 0..1."""
        return {"success": float(self.success), "task_score": self.task_score}

    @property
    def task_score(self) -> float:
        """WebShop's reward of the purchase; 0 without one."""
        return 0.0 if self.session.bought is None else self.session.bought.reward

    @property
    def success(self) -> bool:
        """Whether what was bought fits in everything."""
        return self.task_score == 1.0

    def _observation(self, note: str) -> Observation:
        page, bought = self.session.page, self.session.bought is not None
        truncated = not bought and self.steps_left <= 0
        # After the purchase the page has no instruction on it; before it, the task says it already.
        texts = page.texts if bought else page.texts[page.texts.index(self.session.goal.instruction.strip()) + 1 :]
        state = SEPARATOR.join(texts if bought else (f"'{text}'" for text in texts))
        note = USED_UP if truncated else note
        clicks = [f"click[{what}]" for what in page.clickables if what != SEARCH]
        return Observation(
            f"{state}\n{note}" if note else state,
            actions=[QUERY, *clicks] if page.searches else clicks,
            state=state,
            reward=FULL_SCORE if self.success else 0.0,
            terminated=bought,
            truncated=truncated,
            info={"success": self.success, "task_score": self.task_score} if bought or truncated else {},
        )
