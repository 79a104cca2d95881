"""A daemon thread with an event loop of its own, and a way to run coroutines in it from another loop.

Both directions are batched: posts that arrive before the other side woke up share one wake-up, which under load is most
of what crossing threads costs. The thread is a daemon because author code may never return from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from agent_env.errors import EpisodeError

_Answer = TypeVar("_Answer")

JOIN_TIMEOUT = 2.0
"""Seconds in which a host's threads must end when it closes; they are daemons, so the process can end without them."""


CLOSING_TIMEOUT = 0.3
"""Seconds for what still runs in a thread's loop when it is stopped, and again for what is then cancelled."""


class Mailbox:
    """Callbacks posted to a loop from other threads, run in order; many posts, one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._posts: deque[Callable[[], None]] = deque()
        self._awake = False
        self._since = 0.0

    def post(self, callback: Callable[[], None]) -> None:
        """Have `callback` run in the loop. A closed loop drops it: nobody is left to care."""
        self._posts.append(callback)
        if not self._awake:
            self._awake = True
            self._since = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                self._awake = False
                self._posts.clear()

    def lag(self) -> float:
        """Seconds for which the loop has not picked up what was posted; 0 if nothing waits."""
        return time.monotonic() - self._since if self._awake else 0.0

    def _drain(self) -> None:
        # Cleared first: a post from now on either is seen by this loop or wakes the next one.
        self._awake = False
        while self._posts:
            self._posts.popleft()()


class Job(Generic[_Answer]):
    """One coroutine on its way through the thread and back."""

    def __init__(
        self, function: Callable[..., Coroutine[Any, Any, _Answer]], arguments: tuple[Any, ...], home: Mailbox
    ) -> None:
        self.function, self.arguments, self.home = function, arguments, home
        self.done: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.cancelled = False

    def _begin(self) -> None:
        if not self.cancelled:
            self.task = asyncio.get_running_loop().create_task(self._carry())

    def _cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()

    async def _carry(self) -> None:
        try:
            answer = await self.function(*self.arguments)
        except BaseException as error:
            # Whatever author code raises must not end the thread's loop, which asyncio lets some exceptions do.
            failure = error
            self.home.post(lambda: self._fail(failure))
        else:
            self.home.post(lambda: self._succeed(answer))

    def _succeed(self, answer: _Answer) -> None:
        if not self.done.done():
            self.done.set_result(answer)

    def _fail(self, error: BaseException) -> None:
        if self.done.done():
            return
        if not isinstance(error, Exception):
            # A cancellation that nobody here asked for, or an exit: as itself it would end the awaiting task instead.
            error = EpisodeError(f"the environment's code raised {type(error).__name__}: {error}")
        self.done.set_exception(error)


def _nothing() -> None:
    pass


class LoopThread:
    """A thread that runs coroutines for other threads' event loops. Made within a running loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Of the kind of the loop that asks: waking uvloop's costs half of what waking asyncio's does.
        self._loop = type(asyncio.get_running_loop())()
        self._mailbox = Mailbox(self._loop)
        self._homes: dict[asyncio.AbstractEventLoop, Mailbox] = {}
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def begin(self, function: Callable[..., Coroutine[Any, Any, _Answer]], *arguments: Any) -> Job[_Answer]:
        """Start ``function(*arguments)`` in the thread; await the job's `done` in this loop."""
        job = Job(function, arguments, self._home())
        self._mailbox.post(job._begin)
        return job

    def cancel(self, job: Job[Any]) -> None:
        """Cancel `job`, without waiting for it: code that blocks goes on blocking the thread."""
        self._mailbox.post(job._cancel)

    def ask_for_sign(self) -> None:
        """Ask the thread for a sign of life, so that `lag` tells whether it gives one."""
        self._mailbox.post(_nothing)

    def lag(self) -> float:
        """Seconds for which the thread has not picked up what was asked of it."""
        return self._mailbox.lag()

    def stop(self) -> None:
        """Have the thread end once it is free; does not wait for it."""
        self._mailbox.post(self._loop.stop)

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended yet."""
        return self._thread.is_alive()

    def _home(self) -> Mailbox:
        loop = asyncio.get_running_loop()
        if loop not in self._homes:
            self._homes = {loop: Mailbox(loop)}
        return self._homes[loop]

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            if leftover := asyncio.all_tasks(self._loop):
                # What is just closing may finish; the rest is told to.
                _, leftover = self._loop.run_until_complete(asyncio.wait(leftover, timeout=CLOSING_TIMEOUT))
            for task in leftover:
                task.cancel()
            if leftover:
                self._loop.run_until_complete(asyncio.wait(leftover, timeout=CLOSING_TIMEOUT))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            with contextlib.suppress(TimeoutError):
                self._loop.run_until_complete(asyncio.wait_for(self._loop.shutdown_default_executor(), CLOSING_TIMEOUT))
        finally:
            self._loop.close()


async def join_all(threads: Sequence[LoopThread]) -> int:
    """Stop threads and wait `JOIN_TIMEOUT` for all of them together; how many did not end."""
    for thread in threads:
        thread.stop()
    deadline = time.monotonic() + JOIN_TIMEOUT
    while True:
        alive = sum(thread.alive for thread in threads)
        if not alive or time.monotonic() > deadline:
            return alive
        await asyncio.sleep(0.01)
