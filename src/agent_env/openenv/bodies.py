"""JSON bodies of HTTP requests: bounded, parsed and checked, with FastAPI's form of refusal."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_env.openenv.messages import problems

_Model = TypeVar("_Model", bound=BaseModel)

BODY_TIMEOUT = 30.0
"""Seconds for a request's body to come."""
MAX_BODY = 64 * 1024
"""Bytes that a Task API request may have."""


async def json_body(request: Request, limit: int = MAX_BODY) -> Any:
    """The body as JSON.

    Raises:
        HTTPException: 408 if it takes over `BODY_TIMEOUT`, 413 if it has over `limit` bytes, 422 if it is not JSON.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    raise HTTPException(413, f"the body has more than {limit} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_TIMEOUT:g} s") from None
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, [{"type": "json_invalid", "loc": ["body"], "msg": f"Invalid JSON: {error}"}]) from None  # type: ignore[arg-type]


async def body_of(request: Request, model: type[_Model]) -> _Model:
    """The body as a `model`. Raises HTTPException 408, 413 or 422, the last with every problem."""
    value = await json_body(request)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        details = [{**item, "loc": ["body", *item["loc"]]} for item in problems(error)]
        raise HTTPException(422, details) from None  # type: ignore[arg-type]
