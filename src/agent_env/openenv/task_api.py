"""OpenEnv's Task API over HTTP: which splits and tasks there are. Reading it opens no session, runs no environment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_env.openenv import messages
from agent_env.openenv.bodies import body_of
from agent_env.openenv.catalogue import Catalogue, Entry


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SplitRequest(_Strict):
    """Body of ``/tasks`` and ``/num_tasks``."""

    split: str


class TaskRequest(_Strict):
    """Body of ``/task``."""

    split: str
    index: int


class RangeRequest(_Strict):
    """Body of ``/task_range``: from `start`, included, to `stop`, excluded; to the ends if not given."""

    split: str
    start: int | None = None
    stop: int | None = None


class ToolsetRequest(_Strict):
    """Body of ``/toolset``: the hash that a task's ``toolset`` is."""

    toolset: str


class TaskApi:
    """The routes of the Task API for one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def routes(self) -> list[Route]:
        """What to serve; ``/{env}/toolset`` and ``/{env}/step_layouts`` are ours, the rest is OpenEnv's."""
        posts = {
            "tasks": self._tasks,
            "num_tasks": self._num_tasks,
            "task": self._task,
            "task_range": self._task_range,
            "toolset": self._toolset,
        }
        return [
            Route("/list_environments", self._environments),
            Route("/{env}/splits", self._splits),
            Route("/{env}/step_layouts", self._step_layouts),
            *(Route(f"/{{env}}/{name}", endpoint, methods=["POST"]) for name, endpoint in posts.items()),
        ]

    async def _environments(self, request: Request) -> Response:
        return json_response([self._catalogue.name])

    async def _splits(self, request: Request) -> Response:
        self._check_name(request)
        known = ("train", "validation", "test")
        return json_response(
            [{"name": split, "type": split if split in known else "validation"} for split in self._catalogue.splits]
        )

    async def _tasks(self, request: Request) -> Response:
        self._check_name(request)
        body = await body_of(request, SplitRequest)
        tasks = await _described(self._entries(body.split))
        return json_response({"tasks": tasks, "env_name": self._catalogue.name})

    async def _num_tasks(self, request: Request) -> Response:
        self._check_name(request)
        body = await body_of(request, SplitRequest)
        return json_response({"num_tasks": len(self._entries(body.split))})

    async def _task(self, request: Request) -> Response:
        self._check_name(request)
        body = await body_of(request, TaskRequest)
        try:
            return json_response({"task": self._catalogue.entry(body.split, body.index).described()})
        except LookupError as error:
            raise _invalid_index(error) from None

    async def _task_range(self, request: Request) -> Response:
        self._check_name(request)
        body = await body_of(request, RangeRequest)
        entries = self._entries(body.split)
        if (body.start or 0) < 0 or (body.stop or 0) < 0:
            raise _invalid_index(LookupError("start and stop count from 0"))
        return json_response({"tasks": await _described(entries[body.start : body.stop])})

    async def _toolset(self, request: Request) -> Response:
        self._check_name(request)
        body = await body_of(request, ToolsetRequest)
        toolset = self._catalogue.toolsets.get(body.toolset)
        if toolset is None:
            raise HTTPException(404, f"unknown toolset {body.toolset!r:.80}")
        return json_response({"toolset": toolset.hash, "tools": [messages.tool_fields(tool) for tool in toolset.tools]})

    async def _step_layouts(self, request: Request) -> Response:
        self._check_name(request)
        return json_response(self._catalogue.step_layouts)

    def _check_name(self, request: Request) -> None:
        name = request.path_params["env"]
        if name.lower() != self._catalogue.name.lower():
            raise HTTPException(404, f"unknown environment {name!r}")

    def _entries(self, split: str) -> list[Entry]:
        try:
            return self._catalogue.entries(split)
        except LookupError as error:
            raise _invalid_index(error) from None


def json_response(value: Any, status: int = 200) -> Response:
    """`value` as a JSON response."""
    return Response(messages.encode(value), status, media_type="application/json")


async def _described(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Tasks as the API tells of them; a hundred thousand take seconds, in which sessions must go on."""
    described = []
    for index, entry in enumerate(entries):
        described.append(entry.described())
        if index % 1000 == 999:
            await asyncio.sleep(0)
    return described


def _invalid_index(error: LookupError) -> HTTPException:
    return HTTPException(400, f"Invalid task index: {error.args[0]}")
