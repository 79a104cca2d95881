"""The Task API of a task server, over HTTP: its splits, what it says of each task, and the tools of its toolsets.

OpenEnv 0.9+ serves ``/list_environments``, ``/{env}/splits``, ``/num_tasks``, ``/task_range`` and ``/tasks`` (an
environment may leave any of the last three out: HTTP 501). Our server adds ``/{env}/toolset`` and
``/{env}/step_layouts``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import httpx

from agent_env.errors import CallTimedOut, InputError, NotATaskServer, Problem, ServerUnreachable
from agent_env.training import tls
from agent_env.training.answers import Json, openai_tool
from agent_env.training.shared import Shared
from agent_env.training.wire import status_error

PAGE = 500
"""Tasks asked for at once: enough to read 10,000 in a second, few enough that no answer grows large."""

UNSUPPORTED = frozenset({404, 405, 501})
"""What a server answers to a route, or a part of the Task API, that it does not have."""

Progress = Callable[[int, int], None]
"""Called with the number of steps done and the number there are."""


@dataclass(frozen=True)
class TaskRow:
    """What a server says of a task.

    Args:
        id: of the task; ``{split}-{index}`` from a server that gives none.
        name: for people; the id from a server that gives none.
        split: where it was read.
        index: in that split, which is how a reset selects it.
        prompt: of the first turn.
        system_prompt: may be empty.
        toolset: a key: tasks with the same one have the same tools. None from a server that says nothing of it.
        turns: how many; None from a server that does not say.
        steps: the ids its scores are recorded under; empty from a server that does not say.
        draw_seeds: whether a training may play it with other seeds than its own.
    """

    id: str
    name: str
    split: str
    index: int
    prompt: str
    system_prompt: str
    toolset: str | None
    turns: int | None
    steps: tuple[str, ...] = ()
    draw_seeds: bool = False


@dataclass(frozen=True)
class TaskServer:
    """What a server serves: the environment's name, and the tasks of each split in order (a split may be empty)."""

    env: str
    splits: Mapping[str, tuple[TaskRow, ...]]


async def read_tasks(shared: Shared, progress: Progress | None = None) -> TaskServer:
    """Every task of every split.

    Args:
        progress: told how many tasks were read, of how many.

    Raises:
        ServerUnreachable, CallTimedOut: no answer. Nothing is tried again.
        ServerAtCapacity: too many requests at once.
        TokenRefused: HTTP 401 or 403.
        NotATaskServer: it answers, but not as the Task API.
        InputError: tasks that cannot be played, all of them; or the token cannot be had.
    """
    async with TaskApi.open(shared) as api:
        counts = {split: await api.num_tasks(split) for split in await api.split_names()}
        total, read = sum(count or 0 for count in counts.values()), 0
        described: dict[str, list[Any]] = {}
        for split, count in counts.items():
            described[split] = []
            async for page in api.tasks(split, count):
                described[split] += page
                read += len(page)
                if progress is not None:
                    progress(read, max(total, read))
        problems: list[Problem] = []
        splits = {
            split: tuple(_row(task, split, index, problems) for index, task in enumerate(tasks))
            for split, tasks in described.items()
        }
    if problems:
        raise InputError(problems)
    return TaskServer(api.env, splits)


class TaskApi:
    """The Task API of one server, over one connection that is kept open."""

    def __init__(self, shared: Shared, client: httpx.AsyncClient, env: str) -> None:
        self._shared, self._client = shared, client
        self.env = env

    @classmethod
    @asynccontextmanager
    async def open(cls, shared: Shared) -> AsyncIterator[TaskApi]:
        """Connect and learn the environment's name. Raises what `read_tasks` raises."""
        timeout = httpx.Timeout(shared.call_timeout, connect=shared.connect_timeout)
        async with httpx.AsyncClient(
            base_url=shared.base,
            headers=shared.headers,
            timeout=timeout,
            trust_env=not shared.loopback,
            verify=tls.context(),
            # Shorter than any server keeps an idle connection (uvicorn: 5 s), or a request could meet its closing.
            limits=httpx.Limits(keepalive_expiry=2.0),
        ) as client:
            api = cls(shared, client, "")
            names = await api._required("GET", "/list_environments")
            if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
                raise NotATaskServer(f"{shared.url}: /list_environments names {names!r}; expected one environment")
            api.env = names[0]
            yield api

    async def split_names(self) -> list[str]:
        """The names of the splits."""
        splits = await self._required("GET", self._path("splits"))
        names = [split.get("name") if isinstance(split, dict) else None for split in splits or ()]
        if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise NotATaskServer(f"{self._shared.url}: names its splits {splits!r}; expected a list of distinct names")
        return cast(list[str], names)

    async def num_tasks(self, split: str) -> int | None:
        """How many tasks a split has; None if the server does not say."""
        answer = await self._request("POST", self._path("num_tasks"), {"split": split})
        count = answer.get("num_tasks") if isinstance(answer, dict) else None
        if answer is None:
            return None
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise NotATaskServer(f"{self._shared.url}: split {split!r} has {count!r} tasks; expected a count")
        return count

    async def tasks(self, split: str, count: int | None) -> AsyncIterator[list[Any]]:
        """A split's tasks as the server describes them, a page at a time."""
        read = 0
        while count is not None and read < count:
            stop = min(read + PAGE, count)
            bounds = {"split": split, "start": read, "stop": stop}
            answer = await self._request("POST", self._path("task_range"), bounds)
            if answer is None:
                break
            page = self._list_of_tasks(answer, split)
            if len(page) != stop - read:
                raise NotATaskServer(f"{self._shared.url}: {len(page)} tasks answer to {bounds}")
            read += len(page)
            yield page
        if count is None or read < count:
            listed = self._list_of_tasks(await self._required("POST", self._path("tasks"), {"split": split}), split)
            if count is not None and len(listed) != count:
                raise NotATaskServer(
                    f"{self._shared.url}: split {split!r} lists {len(listed)} of its {count} tasks and serves no "
                    "task_range to read the others by"
                )
            yield listed

    async def toolset(self, key: str) -> tuple[Json, ...] | None:
        """A toolset's tools in OpenAI's format, without ``end_turn``; None if the server has no such route or key."""
        answer = await self._request("POST", self._path("toolset"), {"toolset": key})
        if answer is None:
            return None
        tools = answer.get("tools") if isinstance(answer, dict) else None
        what = f"{self._shared.url}: toolset {key}"
        if not isinstance(tools, list):
            raise NotATaskServer(f"{what}: the answer lists no tools")
        listed = (openai_tool(tool, what) for tool in tools)
        return tuple(tool for tool in listed if tool["function"]["name"] != "end_turn")

    async def step_layouts(self) -> list[Json]:
        """What each bundle of the server says of the step layout; empty from a server that has no such route."""
        answer = await self._request("GET", self._path("step_layouts"))
        if answer is None:
            return []
        if not isinstance(answer, list) or not all(isinstance(layout, dict) for layout in answer):
            raise NotATaskServer(f"{self._shared.url}: /step_layouts answers {answer!r:.80}; expected a list")
        return answer

    def _path(self, route: str) -> str:
        return f"/{quote(self.env, safe='')}/{route}"

    def _list_of_tasks(self, answer: Any, split: str) -> list[Any]:
        tasks = answer.get("tasks") if isinstance(answer, dict) else None
        if not isinstance(tasks, list):
            raise NotATaskServer(f"{self._shared.url}: the tasks of split {split!r} are no list")
        return tasks

    async def _required(self, method: str, path: str, body: Json | None = None) -> Any:
        answer = await self._request(method, path, body)
        if answer is None:
            raise NotATaskServer(f"{self._shared.url}: no Task API at {path}: not an OpenEnv 0.9+ task server")
        return answer

    async def _request(self, method: str, path: str, body: Json | None = None) -> Any:
        """The JSON that answers; None for a route the server does not have."""
        url, seconds = self._shared.url, self._shared.call_timeout
        try:
            # httpx counts seconds per read: a server that drips bytes would never be late by its clock.
            async with asyncio.timeout(seconds):
                response = await self._client.request(method, path, json=body)
        except httpx.ConnectTimeout as error:
            raise ServerUnreachable(f"{url}: no connection in {self._shared.connect_timeout:g} s") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise CallTimedOut(f"{url}: no answer at {path} in {seconds:g} s") from error
        except httpx.RemoteProtocolError as error:
            if "disconnected" in str(error):
                raise ServerUnreachable(f"{url}: the server closed the connection unanswered at {path}") from error
            raise NotATaskServer(f"{url}: answers at {path}, but not in HTTP ({error})") from error
        except httpx.TransportError as error:
            if found := tls.failure(error):
                raise NotATaskServer(f"{url}: {found}") from error
            raise ServerUnreachable(
                f"{url}: {error or type(error).__name__}: is a task server running there?"
            ) from error
        if response.status_code in UNSUPPORTED:
            return None
        if response.is_redirect:
            raise NotATaskServer(f"{url}: redirects to {response.headers.get('location')}: use that URL")
        if not response.is_success:
            raise status_error(self._shared, response.status_code, path)
        try:
            return response.json()
        except ValueError as error:
            raise NotATaskServer(f"{url}: answers at {path}, but not in JSON: not a task server") from error


def _row(task: Any, split: str, index: int, problems: list[Problem]) -> TaskRow:
    said: Json = task if isinstance(task, dict) else {}
    where = f"{split}[{index}]"
    prompt, system_prompt = said.get("prompt"), said.get("system_prompt") or ""
    if not isinstance(prompt, str) or not isinstance(system_prompt, str):
        fix = "the server's list_tasks must describe a task as {'id', 'prompt', 'system_prompt', …}"
        problems.append(Problem(where, "the server says no prompt for this task", fix))
        prompt = system_prompt = ""
    task_id = str(said.get("id") or f"{split}-{index}")
    toolset, turns, steps = said.get("toolset"), said.get("turns"), said.get("steps")
    return TaskRow(
        id=task_id,
        name=str(said.get("name") or task_id),
        split=split,
        index=index,
        prompt=prompt,
        system_prompt=system_prompt,
        toolset=toolset if isinstance(toolset, str) else None,
        turns=turns if isinstance(turns, int) and not isinstance(turns, bool) else None,
        steps=tuple(str(step) for step in steps) if isinstance(steps, list) else (),
        draw_seeds=said.get("draw_seeds") is True,
    )
