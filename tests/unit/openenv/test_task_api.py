"""The Task API over HTTP, in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_env.bundle import load_bundle
from agent_env.openenv import bodies, build_app
from support.trials import write_trials


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(load_bundle(write_trials(tmp_path))))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        yield http


async def test_what_there_is(http: httpx.AsyncClient) -> None:
    assert (await http.get("/list_environments")).json() == ["trials"]
    assert (await http.get("/trials/splits")).json() == [
        {"name": "all", "type": "validation"},
        {"name": "train", "type": "train"},
        {"name": "eval", "type": "validation"},
    ]
    assert (await http.post("/trials/num_tasks", json={"split": "train"})).json() == {"num_tasks": 5}


async def test_tasks(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/trials/tasks", json={"split": "train"})).json()
    assert answer["env_name"] == "trials"
    assert [task["id"] for task in answer["tasks"]] == ["plain", "two", "reset-raise", "reset-sleep", "reset-nan"]
    assert [task["turns"] for task in answer["tasks"]] == [1, 2, 1, 1, 1]
    one = (await http.post("/trials/task", json={"split": "train", "index": 1})).json()
    assert one == {"task": answer["tasks"][1]}


@pytest.mark.parametrize(
    ("bounds", "ids"),
    [
        ({}, ["plain", "two", "reset-raise", "reset-sleep", "reset-nan"]),
        ({"start": 1, "stop": 3}, ["two", "reset-raise"]),
        ({"start": 3}, ["reset-sleep", "reset-nan"]),
        ({"stop": 1}, ["plain"]),
        ({"start": 3, "stop": 99}, ["reset-sleep", "reset-nan"]),
        ({"start": 4, "stop": 2}, []),
        ({"start": None, "stop": None}, ["plain", "two", "reset-raise", "reset-sleep", "reset-nan"]),
    ],
    ids=str,
)
async def test_ranges(http: httpx.AsyncClient, bounds: dict[str, Any], ids: list[str]) -> None:
    answer = await http.post("/trials/task_range", json={"split": "train", **bounds})
    assert [task["id"] for task in answer.json()["tasks"]] == ids


async def test_a_tasks_tools_without_playing_it(http: httpx.AsyncClient) -> None:
    task = (await http.post("/trials/task", json={"split": "train", "index": 0})).json()["task"]
    answer = (await http.post("/trials/toolset", json={"toolset": task["toolset"]})).json()
    assert answer["toolset"] == task["toolset"]
    assert answer["tools"][0] == {
        "name": "echo",
        "description": "Say it again.",
        "input_schema": {
            "additionalProperties": False,
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "type": "object",
        },
    }
    assert "end_turn" not in {tool["name"] for tool in answer["tools"]}
    assert (await http.post("/trials/toolset", json={"toolset": "nothing"})).status_code == 404


async def test_names_are_compared_without_case(http: httpx.AsyncClient) -> None:
    assert (await http.get("/Trials/splits")).status_code == 200
    missing = await http.get("/other/splits")
    assert (missing.status_code, missing.json()) == (404, {"detail": "unknown environment 'other'"})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("task", {"split": "train", "index": 5}),
        ("task", {"split": "train", "index": -1}),
        ("task", {"split": "test", "index": 0}),
        ("tasks", {"split": "test"}),
        ("num_tasks", {"split": "test"}),
        ("task_range", {"split": "test"}),
        ("task_range", {"split": "train", "start": -1}),
    ],
    ids=str,
)
async def test_an_index_or_split_that_is_not_there(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    answer = await http.post(f"/trials/{path}", json=body)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Invalid task index")


async def test_every_problem_of_a_body_at_once(http: httpx.AsyncClient) -> None:
    answer = await http.post("/trials/task", json={"split": 1, "more": 2})
    assert answer.status_code == 422
    assert {tuple(item["loc"]) for item in answer.json()["detail"]} == {
        ("body", "split"),
        ("body", "index"),
        ("body", "more"),
    }


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"NaN", b'"\xff"', b"[" * 60_000])
async def test_a_body_that_is_no_request(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post("/trials/tasks", content=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body"]


async def test_a_body_is_bounded(http: httpx.AsyncClient) -> None:
    answer = await http.post("/trials/tasks", content=b'{"split": "' + b"x" * 70_000 + b'"}')
    assert answer.status_code == 413
    assert "65536" in answer.json()["detail"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT", 0.05)

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    answer = await http.post("/trials/tasks", content=body())
    assert answer.status_code == 408


async def test_the_other_routes(http: httpx.AsyncClient) -> None:
    assert (await http.get("/health")).json() == {"status": "healthy"}
    metadata = (await http.get("/metadata")).json()
    assert (metadata["name"], metadata["description"]) == ("trials", "Trials of a server.")
    assert set((await http.get("/schema")).json()) == {"action", "observation", "reset_observation", "state"}
    missing = await http.get("/reset")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    wrong = await http.get("/trials/tasks")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
