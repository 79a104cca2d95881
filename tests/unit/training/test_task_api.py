"""The Task API over HTTP, against servers that answer as OpenEnv's does, or as no task server would."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_env.errors import CallTimedOut, InputError, NotATaskServer, ServerAtCapacity, ServerUnreachable, TokenRefused
from agent_env.training.sessions import Shared, TaskRow, read_tasks
from agent_env.training.task_api import PAGE, TaskApi
from support.peers import free_port, http_peer, raw_peer


class Serves:
    """Answers like a server of the environment `sums`; `changes` replace what a path answers."""

    def __init__(self, served: dict[str, list[Any]], **changes: tuple[int, Any]) -> None:
        self.served, self.changes = served, changes

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        route = path.rpartition("/")[2]
        if route in self.changes:
            return self.changes[route]
        if path == "/list_environments":
            return 200, ["sums"]
        tasks = self.served.get((body or {}).get("split"), [])
        match path:
            case "/sums/splits":
                return 200, [{"name": name, "type": "train"} for name in self.served]
            case "/sums/num_tasks":
                return 200, {"num_tasks": len(tasks)}
            case "/sums/task_range":
                return 200, {"tasks": tasks[body["start"] : body["stop"]]}
            case "/sums/tasks":
                return 200, {"tasks": tasks, "env_name": "sums"}
        return 404, {"detail": "Not Found"}


def described(count: int) -> list[dict[str, Any]]:
    return [{"id": f"t{i}", "prompt": f"p{i}"} for i in range(count)]


async def test_what_a_server_says_of_a_task():
    said = {"id": "a", "name": "A", "index": 9, "prompt": "p", "system_prompt": "s", "toolset": "h", "turns": 2}
    async with http_peer(Serves({"train": [said | {"steps": ["x", "y"]}, {"prompt": "q"}], "test": []})) as server:
        tasks = await read_tasks(Shared(server.url))
    assert tasks.env == "sums"
    assert tasks.splits == {
        "train": (
            # The position selects a task in a reset, whatever index its description claims.
            TaskRow("a", "A", "train", 0, "p", "s", "h", 2, ("x", "y")),
            TaskRow("train-1", "train-1", "train", 1, "q", "", None, None, ()),
        ),
        "test": (),
    }


@pytest.mark.parametrize(("count", "pages"), [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2), (3 * PAGE, 3)])
async def test_tasks_come_in_pages(count, pages):
    async with http_peer(Serves({"train": described(count)})) as server:
        tasks = await read_tasks(Shared(server.url))
    assert [task.id for task in tasks.splits["train"]] == [f"t{i}" for i in range(count)]
    assert server.count("/sums/task_range") == pages
    assert server.count("/sums/tasks") == 0


@pytest.mark.parametrize("missing", ["num_tasks", "task_range"])
async def test_a_server_may_lack_a_route(missing):
    async with http_peer(Serves({"train": described(3)}, **{missing: (501, {"detail": "not supported"})})) as server:
        tasks = await read_tasks(Shared(server.url))
    assert len(tasks.splits["train"]) == 3
    assert server.count("/sums/tasks") == 1


async def test_a_preview_is_not_taken_for_the_split():
    changes = {"task_range": (501, {}), "tasks": (200, {"tasks": described(2)})}
    async with http_peer(Serves({"train": described(5)}, **changes)) as server:
        with pytest.raises(NotATaskServer, match="lists 2 of its 5 tasks"):
            await read_tasks(Shared(server.url))


async def test_a_short_page_is_not_taken_for_the_end():
    async with http_peer(Serves({"train": described(5)}, task_range=(200, {"tasks": described(2)}))) as server:
        with pytest.raises(NotATaskServer, match="2 tasks answer to"):
            await read_tasks(Shared(server.url))


async def test_every_task_without_a_prompt_is_named():
    tasks = [{"prompt": "p"}, {"id": "x"}, "just a string", {"prompt": 3}, {"prompt": "p", "system_prompt": 3}]
    async with http_peer(Serves({"train": tasks})) as server:
        with pytest.raises(InputError) as caught:
            await read_tasks(Shared(server.url))
    assert [problem.where for problem in caught.value.problems] == ["train[1]", "train[2]", "train[3]", "train[4]"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"list_environments": (404, {})}, r"no Task API at /list_environments: not an OpenEnv 0\.9\+ task server"),
        ({"list_environments": (200, b"<html>hello</html>")}, "not in JSON"),
        ({"list_environments": (200, {"no": "list"})}, "expected one environment"),
        ({"list_environments": (200, ["a", "b"])}, "expected one environment"),
        ({"list_environments": (302, {})}, "redirects to"),
        ({"splits": (501, {"detail": "list_splits is not supported"})}, "no Task API at /sums/splits"),
        ({"splits": (200, [])}, "expected a list of distinct names"),
        ({"splits": (200, [{"type": "train"}])}, "expected a list of distinct names"),
        ({"splits": (200, [{"name": "a"}, {"name": "a"}])}, "expected a list of distinct names"),
        ({"num_tasks": (200, {"num_tasks": -1})}, "has -1 tasks"),
        ({"num_tasks": (200, {"num_tasks": True})}, "has True tasks"),
        ({"num_tasks": (200, [])}, "has None tasks"),
        ({"task_range": (200, {"tasks": "many"})}, "are no list"),
        ({"task_range": (422, {})}, "HTTP 422 at /sums/task_range"),
    ],
)
async def test_what_is_no_task_server(changes, message):
    async with http_peer(Serves({"train": described(1)}, **changes)) as server:
        with pytest.raises(NotATaskServer, match=message):
            await read_tasks(Shared(server.url))


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, ServerAtCapacity), (500, ServerUnreachable), (502, ServerUnreachable), (503, ServerUnreachable)],
)
async def test_a_server_that_is_not_ready(status, error):
    async with http_peer(Serves({}, list_environments=(status, b"bad gateway"))) as server:
        with pytest.raises(error, match=f"HTTP {status} at /list_environments"):
            await read_tasks(Shared(server.url))


async def test_nothing_there():
    with pytest.raises(ServerUnreachable):
        await read_tasks(Shared(f"http://127.0.0.1:{free_port()}"))


async def test_no_answer_in_time_however_it_drips():
    async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with raw_peer(drips) as url:
        with pytest.raises(CallTimedOut, match=r"no answer at /list_environments in 0\.4 s"):
            await read_tasks(Shared(url, call_timeout=0.4))


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.6\r\n\r\n"])
async def test_a_connection_that_speaks_no_http(said):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)

    async with raw_peer(talk) as url:
        with pytest.raises(NotATaskServer if said else ServerUnreachable):
            await read_tasks(Shared(url))


async def test_the_token_is_sent_with_every_request_and_a_refusal_says_which_variable(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_TEST", "secret-value")
    async with http_peer(Serves({"train": described(1)})) as server:
        await read_tasks(Shared(server.url, "TOKEN_OF_TEST"))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer secret-value"}
    for status in (401, 403):
        async with http_peer(Serves({}, list_environments=(status, {}))) as server:
            with pytest.raises(TokenRefused, match="the server refuses the token in environment variable TOKEN"):
                await read_tasks(Shared(server.url, "TOKEN_OF_TEST"))


async def test_a_toolset_is_known_or_not():
    tools = [{"name": name, "description": "", "input_schema": {}} for name in ("add", "end_turn")]
    async with http_peer(Serves({}, toolset=(200, {"toolset": "h", "tools": tools}))) as server:
        async with TaskApi.open(Shared(server.url)) as api:
            known = await api.toolset("h")
        assert server.requests[-1] == ("POST", "/sums/toolset", {"toolset": "h"})
    assert known is not None
    assert [tool["function"]["name"] for tool in known] == ["add"]
    async with http_peer(Serves({})) as server, TaskApi.open(Shared(server.url)) as api:
        assert await api.toolset("h") is None


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used_again():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'["sums"]'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()  # and then it closes, without having said so

    async with raw_peer(talk) as url, TaskApi.open(Shared(url)) as api:
        await asyncio.sleep(0.3)
        assert await api._required("GET", "/list_environments") == ["sums"]


async def test_no_proxy_of_the_environment_is_used_for_this_machine(monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{free_port()}")
    async with http_peer(Serves({"train": described(1)})) as server:
        assert len((await read_tasks(Shared(server.url))).splits["train"]) == 1
