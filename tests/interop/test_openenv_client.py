"""OpenEnv's own clients against a real server of ours: the protocol as others speak it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction, ListToolsObservation
from openenv.core.env_server.types import WSErrorCode, WSErrorResponse, WSObservationResponse, WSStateResponse
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

from support.servers import Server, client, serving
from support.trials import write_trials

TOKEN = "a-token"
TOKEN_VAR = "TOKEN_OF_INTEROP_TESTS"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def inbox() -> Iterator[Server]:
    with serving("inbox", "--max-sessions", "4", "--admission-timeout", "0.5") as server:
        yield server


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_trials(tmp_path_factory.mktemp("trials"), "threads")
    options = ["--max-sessions", "1", "--admission-timeout", "0.5", "--token-var", TOKEN_VAR]
    with serving(folder, *options, env={TOKEN_VAR: TOKEN}) as server:
        yield server


@pytest.fixture
def http(inbox: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=inbox.url, trust_env=False) as http:
        yield http


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": tool, "arguments": arguments}


# --- the inbox's two turns, three ways ------------------------------------------------------------------------


async def test_the_generic_client_plays_both_turns(inbox: Server) -> None:
    async with GenericEnvClient(base_url=inbox.url) as env:
        reset = await env.reset(split="train", index=0)
        assert not reset.done
        assert reset.metadata["task"]["turns"] == 2
        listed = await env.step({"type": "list_tools"})
        assert [tool["name"] for tool in listed.observation["tools"]] == ["search_emails", "read_email", "end_turn"]
        found = await env.step(call("search_emails", query=""))
        emails = json.loads(found.observation["result"]["data"])
        assert len(emails) == 3
        read = await env.step(call("read_email", id=emails[0]["id"]))
        assert not read.observation["result"]["is_error"]
        second = await env.step(call("end_turn", response="I do not know"))
        assert not second.done
        assert second.metadata["prompt"] == second.observation["result"]["data"]["prompt"] != reset.metadata["prompt"]
        state = await env.state()
        assert (state["split"], state["index"], state["turn"], state["step_count"]) == ("train", 0, 1, 3)
        last = await env.step(call("end_turn", response="I do not know"))
        assert (last.done, last.reward) == (True, 0.0)
        assert last.metadata["scores"] == {"answer-1": 0.0, "answer-2": 0.0}


def test_the_synchronous_client_plays_too(inbox: Server) -> None:
    with GenericEnvClient(base_url=inbox.url).sync() as env:
        assert not env.reset(split="eval", index=0, seed=5).done
        assert env.step(call("end_turn", response="a")).done is False
        assert env.step(call("end_turn", response="b")).done is True


async def test_the_mcp_client_plays_over_its_two_channels(inbox: Server) -> None:
    async with MCPToolClient(base_url=inbox.url) as env:
        await env.reset(split="train", index=0)
        tools = await env.list_tools()
        assert [tool.name for tool in tools] == ["search_emails", "read_email", "end_turn"]
        assert tools[0].input_schema["required"] == ["query"]
        emails = json.loads(await env.call_tool("search_emails", query=""))
        assert len(emails) == 3
        with pytest.raises(RuntimeError, match="no tool 'burn_emails'"):
            await env.call_tool("burn_emails")
        assert set(await env.call_tool("end_turn", response="a")) == {"prompt", "system_prompt"}
        stepped = await env.step(CallToolAction(tool_name="end_turn", arguments={"response": "b"}))
        assert isinstance(stepped.observation, CallToolObservation)
        assert (stepped.done, stepped.reward) == (True, 0.0)
        assert stepped.observation.metadata["scores"] == {"answer-1": 0.0, "answer-2": 0.0}


async def test_the_typed_client_parses_what_it_gets(inbox: Server) -> None:
    async with MCPToolClient(base_url=inbox.url) as env:
        await env.reset(split="train", index=0)
        listed = await env.step(ListToolsAction())
        assert isinstance(listed.observation, ListToolsObservation)
        assert listed.observation.tools[-1].name == "end_turn"
        mistaken = await env.step(CallToolAction(tool_name="search_emails", arguments={"words": 1}))
        assert isinstance(mistaken.observation, CallToolObservation)
        assert mistaken.observation.error is not None
        assert mistaken.observation.error.error_type == "invalid_args"
        assert not mistaken.done


async def test_frames_are_what_openenvs_own_models_accept(inbox: Server) -> None:
    async with client(inbox.ws) as guest:
        reset = await guest.frame('{"type": "reset", "data": {}}')
        WSObservationResponse.model_validate(reset)
        WSStateResponse.model_validate(await guest.frame('{"type": "state"}'))
        error = await guest.frame("{")
        WSErrorResponse.model_validate(error)
        assert WSErrorCode(error["data"]["code"]) is WSErrorCode.INVALID_JSON


# --- errors, capacity, the token, as OpenEnv's client tells of them ------------------------------------------


async def test_errors_reach_the_client_with_openenvs_codes(inbox: Server) -> None:
    async with GenericEnvClient(base_url=inbox.url) as env:
        await env.reset(split="train", index=0)
        with pytest.raises(RuntimeError, match=r"Invalid message \(code: VALIDATION_ERROR\)"):
            await env.step({"type": "call_tool"})
        missing = await env.reset(split="test", index=0)
        assert (missing.done, missing.reward, missing.metadata["status"]) == (True, None, "error")
        assert "there is no split 'test'" in missing.metadata["error"]


async def test_a_failed_episode_is_an_observation(trials: Server) -> None:
    async with GenericEnvClient(base_url=trials.url, headers=BEARER) as env:
        await env.reset(split="train", index=0)
        failed = await env.step(call("fail"))
        assert (failed.done, failed.reward, failed.metadata["status"]) == (True, None, "error")
        assert "the stove is on fire" in failed.metadata["error"]
        unscored = await env.reset(split="train", index=0)
        assert not unscored.done
        unscored = await env.step(call("end_turn", response="nan"))
        assert (unscored.done, unscored.reward, unscored.metadata["status"]) == (True, None, "error")


async def test_before_a_reset_there_are_no_tools(inbox: Server) -> None:
    async with GenericEnvClient(base_url=inbox.url) as env:
        listed = await env.step({"type": "list_tools"})
        assert (listed.done, listed.observation["tools"], listed.metadata["status"]) == (True, [], "error")


async def test_the_limit_reaches_the_client_as_from_openenvs_server(trials: Server) -> None:
    async with GenericEnvClient(base_url=trials.url, headers=BEARER) as first:
        await first.reset(split="train", index=0)
        # Connecting succeeds: the refusal is the answer to the first request.
        async with GenericEnvClient(base_url=trials.url, headers=BEARER) as second:
            with pytest.raises(RuntimeError, match=r"Server at capacity: 1/1 .* \(code: CAPACITY_REACHED\)"):
                await second.reset(split="train", index=0)
        with pytest.raises(RuntimeError, match="Failed to create MCP session: Server at capacity: 1/1"):
            await MCPToolClient(base_url=trials.url, headers=BEARER).connect()
    async with MCPToolClient(base_url=trials.url, headers=BEARER) as third:
        assert not (await third.reset(split="train", index=0)).done


async def test_a_refused_token_is_a_401_before_the_socket_opens(trials: Server) -> None:
    before = len(trials.log)  # which has the tracebacks of environments that raised
    for headers in (None, {"Authorization": "Bearer wrong"}):
        with pytest.raises(ConnectionError, match="HTTP 401"):
            await GenericEnvClient(base_url=trials.url, headers=headers).connect()
    assert "Traceback" not in "".join(trials.log[before:])
    assert "without completing handshake" not in "".join(trials.log[before:])


# --- the Task API over HTTP -----------------------------------------------------------------------------------


def test_the_task_api(http: httpx.Client) -> None:
    assert http.get("/list_environments").json() == ["inbox"]
    splits = [split["name"] for split in http.get("/inbox/splits").json()]
    assert splits == ["all", "train", "eval"]
    count = http.post("/inbox/num_tasks", json={"split": "train"}).json()["num_tasks"]
    tasks = http.post("/inbox/tasks", json={"split": "train"}).json()["tasks"]
    assert len(tasks) == count > 0
    assert [task["index"] for task in tasks] == list(range(count))
    assert http.post("/inbox/task", json={"split": "train", "index": 1}).json()["task"] == tasks[1]
    assert http.post("/inbox/task_range", json={"split": "train", "start": 1, "stop": 3}).json()["tasks"] == tasks[1:3]
    assert http.post("/inbox/task", json={"split": "train", "index": count}).status_code == 400
    assert http.get("/health").json() == {"status": "healthy"}


async def test_the_task_api_tells_what_a_reset_then_plays(inbox: Server, http: httpx.Client) -> None:
    task = http.post("/inbox/task", json={"split": "eval", "index": 3}).json()["task"]
    tools = http.post("/inbox/toolset", json={"toolset": task["toolset"]}).json()["tools"]
    async with GenericEnvClient(base_url=inbox.url) as env:
        reset = await env.reset(split="eval", index=3)
        assert reset.metadata["prompt"] == task["prompt"]
        assert reset.metadata["system_prompt"] == task["system_prompt"]
        assert (reset.metadata["task"]["id"], reset.metadata["task"]["turns"]) == (task["id"], task["turns"])
        listed = (await env.step({"type": "list_tools"})).observation["tools"]
        assert listed[:-1] == tools
