"""Runs a command's coroutine to its end, or until a signal; without waiting there for a name that nobody resolves.

`asyncio` resolves names in threads of a pool, and `asyncio.run` waits for all of the pool when it ends: a command whose
connection was given up after its timeout would go on standing there until the system's resolver gives up as well.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn, ParamSpec, TypeVar

from agent_env.stopping import ended_by

GIVE_UP = 10.0
"""Seconds that a coroutine may take to end once it is cancelled."""

T = TypeVar("T")
P = ParamSpec("P")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`; blocking calls that were given up do not keep it, nor the process.

    Within `stopping`, a signal cancels the coroutine, at the next point where it awaits.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(_Threads())

        async def cancellable() -> T:
            task = asyncio.current_task()
            assert task is not None

            def cancel() -> None:
                task.cancel()
                loop.call_later(GIVE_UP, _interrupt)

            with ended_by(lambda: loop.call_soon_threadsafe(cancel)):
                return await main

        return runner.run(cancellable())


def _interrupt() -> NoReturn:
    """Leave the loop, whose close cancels every task: a cancellation can be lost, as where it meets a result."""
    raise KeyboardInterrupt


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
