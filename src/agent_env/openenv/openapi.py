"""``/openapi.json``: the HTTP routes in OpenAPI's words, made of the models that check the requests.

Sessions are not in it, since OpenAPI has no WebSockets: ``/schema`` tells what is said on ``/ws``.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from agent_env.openenv import task_api
from agent_env.openenv.catalogue import Catalogue

Json = dict[str, Any]

_ANY: Json = {"type": "object"}
_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}


def _table(**properties: Json) -> Json:
    """An object with just these keys, all there."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_TASK = _table(
    id=_TEXT,
    name=_TEXT,
    index=_COUNT,
    prompt=_TEXT,
    system_prompt=_TEXT,
    toolset=_TEXT,
    turns={"type": "integer", "minimum": 1},
    steps=_list(_TEXT),
    draw_seeds={"type": "boolean"},
)
_TOOL = _table(name=_TEXT, description=_TEXT, input_schema=_ANY)
_SPLIT = _table(name=_TEXT, type={"enum": ["train", "validation", "test"]})
_REFUSAL = {"type": "object", "properties": {"detail": {"type": ["string", "array"]}}, "required": ["detail"]}
_GETS: dict[str, tuple[str, Json]] = {
    "/health": ("Whether the server answers; needs no token.", _table(status={"const": "healthy"})),
    "/metadata": ("The environment in words.", _ANY),
    "/schema": ("JSON Schemas of what is said on /ws.", _ANY),
    "/list_environments": ("The name that the paths below begin with.", _list(_TEXT)),
    "/{env}/splits": ("The splits of tasks.", _list(_SPLIT)),
    "/{env}/step_layouts": ("What each bundle says of the step layout.", _list(_ANY)),
}
_POSTS: dict[str, tuple[str, type[BaseModel], Json]] = {
    "tasks": ("All tasks of a split.", task_api.SplitRequest, _table(tasks=_list(_TASK), env_name=_TEXT)),
    "num_tasks": ("How many tasks a split has.", task_api.SplitRequest, _table(num_tasks=_COUNT)),
    "task": ("One task.", task_api.TaskRequest, _table(task=_TASK)),
    "task_range": ("The tasks from start to stop.", task_api.RangeRequest, _table(tasks=_list(_TASK))),
    "toolset": (
        "The tools behind a task's toolset.",
        task_api.ToolsetRequest,
        _table(toolset=_TEXT, tools=_list(_TOOL)),
    ),
}


def openapi(catalogue: Catalogue, asks_for_token: bool) -> Json:
    """The description of a server for `catalogue`."""
    paths: Json = {}
    for path, (summary, answer) in _GETS.items():
        paths[path] = {"get": _operation(summary, answer, 404) if "{" in path else _operation(summary, answer)}
    for name, (summary, model, answer) in _POSTS.items():
        paths[f"/{{env}}/{name}"] = {"post": _operation(summary, answer, 400, 404, 408, 413, 422, body=model)}
    # Whatever JSON it is sent, its refusals are JSON-RPC's own, in an answer with 200.
    paths["/mcp"] = {"post": _operation("JSON-RPC 2.0 for MCP clients.", _ANY, 408, 413, 422, body=True)}
    env = {"name": "env", "in": "path", "required": True, "schema": {"enum": [catalogue.name]}}
    for path, operations in paths.items():
        if path.startswith("/{env}"):
            operations["parameters"] = [env]
    described: Json = {
        "openapi": "3.1.0",
        "info": {"title": catalogue.name, "version": version("agentenv-rl"), "description": catalogue.description},
        "paths": paths,
    }
    if asks_for_token:
        described["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        described["security"] = [{"token": []}]
        paths["/health"]["get"]["security"] = []
        for path, operations in paths.items():
            if path != "/health":
                for method in operations.keys() & {"get", "post"}:
                    operations[method]["responses"] |= {"401": _answer(_REFUSAL), "429": _answer(_REFUSAL)}
    return described


def _operation(summary: str, answer: Json, *refusals: int, body: type[BaseModel] | bool = False) -> Json:
    operation: Json = {
        "summary": summary,
        "responses": {"200": _answer(answer)} | {str(status): _answer(_REFUSAL) for status in refusals},
    }
    if body:
        schema = {} if body is True else body.model_json_schema()
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _answer(schema: Json) -> Json:
    return {"description": "", "content": {"application/json": {"schema": schema}}}
