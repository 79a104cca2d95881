"""``/openapi.json`` tells of every route, and of what a token guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from agent_env.bundle import load_bundle
from agent_env.openenv import build_app
from support.bundles import write_bundle


def client(app: Starlette, token: str | None = None) -> httpx.AsyncClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server", headers=headers)


@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_every_route_is_described(tmp_path: Path, token: str | None) -> None:
    app = build_app(load_bundle(write_bundle(tmp_path)), token=token)
    routes = {
        (route.path, method.lower())
        for route in app.routes
        if isinstance(route, Route) and route.path != "/openapi.json"
        for method in (route.methods or ()) - {"HEAD"}
    }
    async with client(app, token) as http:
        described: dict[str, Any] = (await http.get("/openapi.json")).json()
    operations = {
        (path, method): operation
        for path, item in described["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert operations.keys() == routes
    assert described["info"]["title"] == "counter"
    assert described["paths"]["/{env}/task"]["parameters"][0]["schema"] == {"enum": ["counter"]}
    guarded = {path for (path, _), operation in operations.items() if "401" in operation["responses"]}
    assert guarded == (set() if token is None else {path for path, _ in routes} - {"/health"})
    assert described.get("security") == (None if token is None else [{"token": []}])


async def test_a_method_that_is_not_allowed_is_told_which_are(tmp_path: Path) -> None:
    async with client(build_app(load_bundle(write_bundle(tmp_path)))) as http:
        answer = await http.post("/health")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
