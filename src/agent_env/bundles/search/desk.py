"""Where the searches of all episodes meet: asked at once they are answered together, and each within its time.

A retriever is opened once, in a thread, by the first search. What waits while it is busy is its next batch; equal
queries are one; a batch that fails is asked again query by query, so that a query that the retriever cannot take costs
its own episode. Threads end when nothing waits, so that an idle server has none.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import NamedTuple

from .passages import Passage
from .retriever import Retriever, RetrieverFailed

Passages = tuple[Passage, ...]


class _Asked(NamedTuple):
    query: str
    future: Future[Passages]
    deadline: float


class Desk:
    """Takes the searches of any number of event loops and threads.

    Args:
        make: opens the retriever.
        found: passages that a search finds at most.
        timeout: seconds from a search's asking to its answer.
        batch: queries that the retriever is given at once.
        workers: threads that call it.
        kept: queries whose passages are remembered.
        waiting: searches that may wait at once.
    """

    def __init__(
        self,
        make: Callable[[], Retriever],
        *,
        found: int,
        timeout: float,
        batch: int = 64,
        workers: int = 1,
        kept: int = 10_000,
        waiting: int = 10_000,
    ) -> None:
        self._make, self._found, self._timeout = make, found, timeout
        self._batch, self._workers, self._kept, self._most_waiting = batch, workers, kept, waiting
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._waiting: deque[_Asked] = deque()
        self._threads = 0
        self._known: OrderedDict[str, Passages] = OrderedDict()

    async def ask(self, query: str) -> Passages:
        """The passages for a query, best first.

        Raises:
            RetrieverFailed: the retriever failed, did not answer in time, or too many searches wait.
        """
        asked = _Asked(query, Future(), time.monotonic() + self._timeout)
        with self._lock:
            if query in self._known:
                self._known.move_to_end(query)
                return self._known[query]
            if len(self._waiting) >= self._most_waiting:
                raise RetrieverFailed(f"{self._most_waiting} searches wait already")
            self._waiting.append(asked)
            start = self._threads < self._workers
            self._threads += start
        if start:
            threading.Thread(target=self._work, name="search", daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(asked.future)
        except TimeoutError as error:
            raise RetrieverFailed(f"a search was not answered within {self._timeout:g} s") from error

    @cached_property
    def _retriever(self) -> Retriever:
        return self._make()

    def _work(self) -> None:
        """Answer what waits, batch by batch, until nothing does."""
        while batch := self._next():
            # An episode that is over waits for nothing any more.
            self._answer([asked for asked in batch if asked.future.set_running_or_notify_cancel()])

    def _next(self) -> list[_Asked]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            if not batch:
                self._threads -= 1
        return batch

    def _answer(self, asking: Sequence[_Asked]) -> None:
        queries = list(dict.fromkeys(asked.query for asked in asking))
        try:
            found = self._find(queries) if queries else {}
        except BaseException as error:
            if len(queries) == 1 or time.monotonic() > max(asked.deadline for asked in asking):
                _refuse(asking, error)
                return
            for query in queries:
                self._answer([asked for asked in asking if asked.query == query])
            return
        for asked in asking:
            asked.future.set_result(found[asked.query])

    def _find(self, queries: list[str]) -> dict[str, Passages]:
        with self._opening:
            retriever = self._retriever
        found = dict(zip(queries, map(tuple, retriever.search(queries, self._found)), strict=True))
        with self._lock:
            self._known.update(found)
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return found


def _refuse(asking: Sequence[_Asked], error: BaseException) -> None:
    failure = error if isinstance(error, RetrieverFailed) else RetrieverFailed(f"{type(error).__name__}: {error}")
    for asked in asking:
        asked.future.set_exception(failure)
