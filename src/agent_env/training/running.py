"""Runs a command's coroutine to its end, without waiting there for a name that nobody resolves.

`asyncio` resolves names in threads of a pool, and `asyncio.run` waits for all of the pool when it ends: a command whose
connection was given up after its timeout would go on standing there until the system's resolver gives up as well.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`; blocking calls that were given up do not keep it, nor the process."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_Threads())
        return runner.run(main)


class _Threads(ThreadPoolExecutor):
    """A thread a call, which nobody waits for once the call is given up."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return future
