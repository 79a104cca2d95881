"""A worker process: plays one episode for the server and ends. Forked off `agent_env.hosting.template`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from agent_env.errors import AgentEnvError, EpisodeError
from agent_env.hosting import pipe
from agent_env.hosting.local import LocalHandle
from agent_env.hosting.parent_death import adopt_orphans, die_when_closed, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_env.bundle import Bundle
    from agent_env.hosting.watch import Requests


def work(connection: socket.socket, load: Callable[[], Bundle], template: int, requests: Requests) -> None:
    """Serve one episode over `connection`; never returns.

    Args:
        load: gives the bundle, at no cost if the template has loaded it.
        template: process id of the parent, with which this process must die.
        requests: where to count the requests that were begun.
    """
    try:
        # A group of its own, so that what the environment starts can be ended with it.
        os.setpgid(0, 0)
        die_with_parent(template)
        # What the environment starts and lets go of stays below this process, and is the template's to end after it.
        adopt_orphans()
        die_when_closed(connection.fileno())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _die_first()
        asyncio.run(_serve(connection, LocalHandle(load()), requests))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    # Not sys.exit: what the environment registered or left running must not keep this process.
    os._exit(0)


def _die_first() -> None:
    """Have a kernel that runs out of memory end this process, or what it starts, rather than the server (Linux)."""
    with contextlib.suppress(OSError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(1000, int(score.read_text(encoding="ascii")) + 300)), encoding="ascii")


async def _serve(connection: socket.socket, handle: LocalHandle, requests: Requests) -> None:
    me = os.getpid()
    reader, writer = await asyncio.open_connection(sock=connection)
    while True:
        try:
            (length,) = pipe.LENGTH.unpack(await reader.readexactly(pipe.LENGTH.size))
            request = pipe.decode_request(await reader.readexactly(length))
            requests.begin()
            answer = await _answer(handle, request)
            if os.getpid() != me:
                # A copy of this process that the environment made by os.fork: it is not the one that was asked.
                os._exit(0)
            writer.write(answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            # The server is done with this episode.
            return
        if request.do == "close":
            return


async def _answer(handle: LocalHandle, request: pipe.Request) -> bytes:
    try:
        return pipe.encode(await _done(handle, request))
    except AgentEnvError as error:
        if error.__cause__ is not None:  # the author's own; the server is told no more than what it was
            traceback.print_exception(error.__cause__)
        return pipe.encode(pipe.Reply.of_error(error))
    except BaseException as error:
        # An answer that cannot be encoded, or an exception that means to end a program: the episode's failure alike.
        what = f"tool {request.name!r}" if request.do == "call" else request.do
        return pipe.encode(pipe.Reply.of_error(EpisodeError(f"{what}: {type(error).__name__}: {error}")))


async def _done(handle: LocalHandle, request: pipe.Request) -> pipe.Reply:
    if request.do == "reset":
        assert request.task is not None
        return pipe.Reply(observation=await handle.reset(request.task, request.seed))
    if request.do == "call":
        return pipe.Reply(result=await handle.call(request.name, request.arguments))
    if request.do == "score":
        assert request.turn is not None
        return pipe.Reply.of_score(await handle.score(request.reply, request.turn))
    await handle.close()
    return pipe.Reply()
