"""Requests to end, as exceptions: what a command started and made is then ended and removed on the way out."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_enders: list[Callable[[int], None]] = []


class Stopped(KeyboardInterrupt):
    """A signal asked this process to end. No `Exception`, so that nothing on the way takes it for a failure, and a
    `KeyboardInterrupt`, which an event loop lets through where it would log another exception and go on."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Within, SIGINT, SIGTERM and SIGHUP raise `Stopped` in the main thread; it also comes out if code on the way
    made another exception of it, as the import of a compiled module does.

    What is within `ended_by` is asked by its function first, and interrupted only by a second signal.
    """
    asked: list[int] = []
    event_loops = logging.getLogger("asyncio")
    heard = event_loops.disabled

    def stop(number: int, _: FrameType | None) -> None:
        asked.append(number)
        # An event loop that is torn down tells of each task that did not expect it: that is no news here.
        event_loops.disabled = True
        if _enders and len(asked) == 1:
            _enders[-1](number)
        else:
            raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in _ASKED}
    try:
        yield
    except Stopped:
        raise
    except BaseException as made_of_it:
        if asked:
            raise Stopped(asked[0]) from made_of_it
        raise
    finally:
        event_loops.disabled = heard
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ended_by(end: Callable[[], object]) -> Iterator[None]:
    """Within `stopping`, a signal calls `end`, for what is within to come to its end, and `Stopped` is raised then.

    An exception that is raised wherever a signal happens to arrive can be lost: in a finalizer nobody hears it.
    """
    called: list[int] = []

    def ender(number: int) -> None:
        called.append(number)
        end()

    _enders.append(ender)
    try:
        yield
    finally:
        _enders.remove(ender)
    if called:
        raise Stopped(called[0])


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Ignore further requests to end while ending: that takes a bounded time."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ASKED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
