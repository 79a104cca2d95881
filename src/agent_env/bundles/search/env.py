"""The environment: searches find passages, and the last answer is compared with those that are accepted."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from agent_env import Environment, Task, ToolError, tool
from agent_env.install.needs import official_data

from .library import CORPUS, INDEXES, RETRIEVER, Library, Settings
from .passages import shown
from .scoring import exact_match, f1, last_answer

SEARCHES = 4
"""In an episode."""

_settings = Settings.read(os.environ)
if official_data(Path(__file__).parent) and _settings.corpus is None and _settings.retriever in INDEXES:
    logging.getLogger(__name__).warning(
        "official questions are searched for in the packages' texts, which answer few of them: "
        f"name a file of passages in {CORPUS}, or a URL in {RETRIEVER}"
    )
_library = Library(_settings)
_library.prepare()
DESK = _library.desk()
"""Of all episodes in this process."""


class Search(Environment):
    """A question, with ``task.env["answers"]`` accepted."""

    def reset(self, task: Task, seed: int) -> None:
        self.answers: list[str] = task.env["answers"]
        self.searches_left = SEARCHES

    @tool
    async def search(self, query: str) -> str:
        """Find the three documents that fit a query best.

        Args:
            query: what to look for, in a few words.
        """
        words = " ".join(query.split())
        if not words:
            raise ToolError("query: write what to look for")
        if not self.searches_left:
            raise ToolError(f"all {SEARCHES} searches are used: answer with what you know")
        self.searches_left -= 1
        return shown(await DESK.ask(words))

    def score(self, reply: str) -> dict[str, float]:
        """Exact match and F1 of the answer."""
        answer = last_answer(reply)
        return {"exact": exact_match(answer, self.answers), "f1": f1(answer, self.answers)}
