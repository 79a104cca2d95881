"""The worlds of this process's episodes: each a process of AppWorld's venv, driven over HTTP (see `engine.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx

from agent_env import EpisodeError
from agent_env.hosting.engine import Engine, EngineSession, engine_of

HERE = Path(__file__).parent
WORLDS = 64
"""Worlds at once, in one event loop; further episodes wait for one to end."""
WAIT_SECONDS = 540.0
"""For one of them."""
START_SECONDS = 300.0
"""For a world's process, before the first of which AppWorld is loaded: that takes a quiet processor ten seconds."""
CODE_SECONDS = 60
"""After which AppWorld interrupts code and says so, by the clock."""
CALL_SECONDS = 240.0
"""For a request to a world; code that cannot be interrupted is stopped before, by its processor time."""
EVALUATE_SECONDS = 120.0
END_SECONDS = 2.0
EXPERIMENT = "agent-env"

T = TypeVar("T")
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Never used on a Unix socket; without one each world would read the system's certificates."""
_rooms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()
_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


class CodeStopped(Exception):
    """Code took too much processor time and could not be interrupted, so its world was ended."""


class Verdict(NamedTuple):
    """AppWorld's evaluation: how many tests of a task there are, how many passed, and whether all did."""

    success: bool
    tests: int
    passed: int


class World:
    """One world. Make it with `World.open`."""

    def __init__(self, engine: Engine, process: EngineSession, folder: Path, task: str) -> None:
        self._engine, self._process, self._folder, self._task = engine, process, folder, task
        # It answers when the process has ended.
        self._serving = asyncio.create_task(process.ask("serve"))
        transport = httpx.AsyncHTTPTransport(uds=str(folder / "http"), verify=_NO_TLS)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://world", timeout=None, trust_env=False)
        self._held = contextlib.AsyncExitStack()

    @classmethod
    async def open(cls, data: Path, task: str) -> World:
        """A world of a task, which must be closed.

        Args:
            data: AppWorld's data.

        Raises:
            EpisodeError: none came free in time, or it could not be started.
        """
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(_room())
            engine = engine_of(HERE, str(data))
            async with _turn():
                process = await _within(START_SECONDS, "starting a world", engine.open())
                held.callback(process.close)
                folder = Path(await _within(START_SECONDS, "starting a world", process.ask("listen", task=task)))
                held.push_async_callback(_remove, folder)
                world = cls(engine, process, folder, task)
                held.push_async_callback(world._let_go)
                await world._ask(
                    "initialize",
                    experiment_name=EXPERIMENT,
                    load_ground_truth=False,
                    timeout_seconds=CODE_SECONDS,
                    max_interactions=100_000,
                )
            world._held = held.pop_all()
            return world

    async def execute(self, code: str) -> str:
        """What code printed, or why it failed, in AppWorld's words.

        Raises:
            CodeStopped: it took too much processor time.
            EpisodeError: the world crashed, or did not answer.
        """
        return str(await self._ask("execute", code=code))

    async def completed(self) -> bool:
        """Whether ``complete_task`` was called."""
        return bool(await self._ask("task_completed"))

    def state(self) -> str:
        """A hash of what the apps hold: of all that was written to them, as the last code has left it."""
        outputs = self._folder / "experiments" / "outputs" / EXPERIMENT / "tasks" / self._task
        digest = hashlib.sha256()
        for file in sorted((outputs / "dbs").glob("*.jsonl")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()[:16]

    async def evaluate(self) -> Verdict:
        """AppWorld's verdict on the state that the last code has left, by a process in which no agent's code ran.

        Raises:
            EpisodeError: it failed, or took too long.
        """
        async with _turn():
            judge = await self._engine.open()
            try:
                asked = judge.ask("evaluate", folder=str(self._folder), task=self._task)
                return Verdict(**await _within(EVALUATE_SECONDS, "AppWorld's evaluation", asked))
            finally:
                judge.close()

    async def close(self) -> None:
        """End the world's process and remove its files. Safe to call twice."""
        await self._held.aclose()

    async def _let_go(self) -> None:
        self._serving.cancel()
        with contextlib.suppress(asyncio.CancelledError, EpisodeError):
            await self._serving
        await self._client.aclose()

    async def _ask(self, what: str, **arguments: Any) -> Any:
        """The answer of AppWorld's environment server to POST ``/what``."""
        body = {"task_id": self._task, **arguments}
        try:
            response = await _within(CALL_SECONDS, f"a world's {what}", self._client.post(f"/{what}", json=body))
        except httpx.TransportError as error:
            # Both sockets close when the process ends; the other one says how.
            await asyncio.wait([self._serving], timeout=END_SECONDS)
            if (self._folder / "stopped").is_file() and (self._folder / "stopped").stat().st_size:
                raise CodeStopped from None
            raise EpisodeError(f"the world of {self._task} ended in {what}; it printed why") from error
        if response.status_code != 200:
            raise EpisodeError(f"the world of {self._task} answered {what} with status {response.status_code}")
        return response.json()["output"]


@contextlib.asynccontextmanager
async def _room() -> AsyncIterator[None]:
    """Hold a place for a world. Raises EpisodeError if none comes free in time."""
    places = _rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(WORLDS))
    try:
        await asyncio.wait_for(places.acquire(), WAIT_SECONDS)
    except TimeoutError:
        raise EpisodeError(f"none of {WORLDS} worlds came free within {WAIT_SECONDS:.0f} s") from None
    try:
        yield
    finally:
        places.release()


def _turn() -> asyncio.Semaphore:
    """Held while a world starts or is evaluated, by as many at once as there are processors: more would be slower."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(os.cpu_count() or 1))


async def _remove(folder: Path) -> None:
    """Remove the folder of a world whose process is about to be killed, or was."""
    for _ in range(100):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError:  # it still writes
            pass
        await asyncio.sleep(0.02)


async def _within(seconds: float, what: str, awaitable: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise EpisodeError(f"{what} took longer than {seconds:.0f} s") from None
