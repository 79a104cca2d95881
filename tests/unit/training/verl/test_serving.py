"""The server of a bundle that something on this machine plays."""

import asyncio
import time

import pytest

from agent_env.errors import InputError
from agent_env.training.sessions import opened
from agent_env.training.shared import Shared
from agent_env.training.verl.processes import Processes
from agent_env.training.verl.serving import serve_bundle


async def test_a_player_whose_event_loop_stands_still_keeps_its_episode(tmp_path):
    with Processes() as processes:
        url = await asyncio.to_thread(serve_bundle, processes, "inbox", tmp_path / "server.txt", max_sessions=2)
        async with opened(Shared(url), "train", 0) as session:
            # Longer than `agent-env serve` by itself waits for an answer to its pings.
            time.sleep(12)
            answer = await session.call("search_emails", {"query": "a"})
        assert not answer.is_error


def test_a_server_that_cannot_start_says_why(tmp_path):
    with Processes() as processes, pytest.raises(InputError, match="is no folder"):
        serve_bundle(processes, "/no/such/bundle", tmp_path / "server.txt", max_sessions=2)
