"""Sessions against peers on real sockets: what each misbehaviour becomes, and that no call is ever sent twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import pickle
import time
import traceback
from typing import Any

import pytest

from agent_env.errors import (
    CallTimedOut,
    EpisodeFailed,
    EpisodeUnscored,
    InputError,
    NotATaskServer,
    ServerAtCapacity,
    ServerUnreachable,
    SessionError,
    SessionLost,
    TokenRefused,
)
from agent_env.training.sessions import Ended, NextTurn, Shared, opened, probe, read_tasks
from support.peers import (
    TOOLS,
    ended,
    error,
    failed,
    first_turn,
    free_port,
    next_turn,
    observation,
    peer,
    raw_peer,
    refused,
    said,
    sums,
)


def soon(seconds: float) -> float:
    return time.monotonic() + seconds


def scripted(*frames: Any) -> Any:
    """A peer that answers its requests with these frames, one each, then reads on without answering."""

    async def handler(connection: Any) -> None:
        for frame in frames:
            await connection.recv()
            await connection.send(frame)
        while True:
            await connection.recv()

    return handler


class TestPlaying:
    async def test_an_episode_from_reset_to_reward(self):
        async with peer(sums) as server, opened(Shared(server.url), "train", 4, seed=7) as session:
            assert (session.prompt, session.system_prompt) == ("Add up.", "Be brief.")
            assert session.task["id"] == "train-4"
            assert session.observation is None
            assert (await session.call("add", {"n": 3})).text == "3"
            answer = await session.call("add", {"n": 4})
            assert (answer.text, answer.is_error, answer.images, answer.observation) == ("7", False, (), None)
            assert await session.end_turn("done") == Ended(0.7, {"sum": 0.7})
        assert server.requests[0] == {"type": "reset", "data": {"split": "train", "index": 4, "seed": 7}}
        assert server.requests[-1]["data"]["arguments"] == {"response": "done"}

    async def test_no_seed_is_sent_unless_one_was_given(self):
        async with peer(sums) as server, opened(Shared(server.url), "train", 0):
            pass
        assert server.requests == [{"type": "reset", "data": {"split": "train", "index": 0}}]

    async def test_tools_are_openais_and_end_turn_is_none_of_them(self):
        async with peer(sums) as server:
            tools = await probe(Shared(server.url), "train", 0)
            await server.until_closed()
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        assert tools == (
            {"type": "function", "function": {"name": "add", "description": "Add a number.", "parameters": parameters}},
        )

    async def test_the_next_turn_opens_when_one_ends(self):
        handler = scripted(first_turn(turns=2), next_turn("And now?", "Be kind."), ended(1, a=1, b=0.5))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            assert await session.end_turn("first") == NextTurn("And now?", "Be kind.")
            assert session.prompt == "And now?"
            assert await session.end_turn("second") == Ended(1.0, {"a": 1.0, "b": 0.5})

    async def test_finish_ends_the_turns_the_agent_never_saw(self):
        handler = scripted(first_turn(turns=3), next_turn("2"), next_turn("3"), ended(0.25))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            assert (await session.finish("only reply")).reward == 0.25
        replies = [request["data"]["arguments"]["response"] for request in server.requests[1:]]
        assert replies == ["only reply", "", ""]

    async def test_turns_without_an_end_fail(self):
        handler = scripted(first_turn(turns=2), next_turn("2"), next_turn("3"))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeFailed, match="more turns than the server said"):
                await session.finish("x")

    async def test_an_observation_and_its_images_come_with_an_answer(self):
        seen = {"text": "a door", "images": ["data:image/png;base64,AA=="], "actions": ["open"], "reward": 0.5}
        handler = scripted(first_turn(), said("look", "a door", metadata={"observation": seen}))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("look", {})
        assert answer.observation == seen
        assert answer.images == ("data:image/png;base64,AA==",)

    async def test_pictures_in_the_content_are_the_observations(self):
        content = [{"type": "text", "text": "a door"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]
        seen = {"text": "a door", "images": ["https://example.org/x.png"]}
        data = observation({"tool_name": "look", "result": {"content": content}}, metadata={"observation": seen})
        async with peer(scripted(first_turn(), data)) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("look", {})
        assert answer.images == ("data:image/png;base64,AAAA", "https://example.org/x.png")
        assert answer.observation["images"] == list(answer.images)

    @pytest.mark.parametrize(
        ("result", "text", "is_error"),
        [
            (None, "", False),
            ("plain", "plain", False),
            ({"a": [1, "é"]}, '{"a": [1, "é"]}', False),
            (3, "3", False),
            ({"content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}, "x\ny", False),
            ({"content": [], "structured_content": {"n": 1}, "data": None}, '{"n": 1}', False),
            ({"content": [], "structured_content": None, "data": "d"}, "d", False),
            ({"content": [], "structured_content": None, "data": None}, "", False),
            ({"content": [{"type": "text", "text": "bad"}], "is_error": True}, "bad", True),
            ({"content": [{"type": "text", "text": "bad"}], "isError": True}, "bad", True),
        ],
    )
    async def test_whatever_a_tool_results_in_is_text(self, result, text, is_error):
        handler = scripted(first_turn(), observation({"tool_name": "t", "result": result, "error": None}))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("t", {})
        assert (answer.text, answer.is_error) == (text, is_error)

    async def test_images_of_mcp_become_data_urls(self):
        content = [{"type": "text", "text": "see"}, {"type": "image", "data": "QUJD", "mimeType": "image/jpeg"}]
        handler = scripted(first_turn(), observation({"tool_name": "t", "result": {"content": content}}))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("t", {})
        assert (answer.text, answer.images) == ("see", ("data:image/jpeg;base64,QUJD",))

    async def test_parallel_calls_take_turns_on_the_wire(self):
        async with peer(sums) as server, opened(Shared(server.url), "train", 0) as session:
            answers = await asyncio.gather(*(session.call("add", {"n": 1}) for _ in range(8)))
            assert [answer.text for answer in answers] == [str(n) for n in range(1, 9)]

    async def test_a_call_that_ends_the_episode_keeps_its_reward_for_end_turn(self):
        last = said("win", "you won")
        last["data"] |= {"done": True, "reward": 1.0}
        async with peer(scripted(first_turn(), last)) as server, opened(Shared(server.url), "train", 0) as session:
            assert (await session.call("win", {})).text == "you won"
            late = await session.call("win", {})
            assert late.is_error
            assert "ended" in late.text
            assert await session.end_turn("bye") == Ended(1.0)
        assert len(server.requests) == 2

    async def test_env_seconds_cover_the_server_and_nothing_else(self):
        async def slow(connection: Any) -> None:
            for frame in (first_turn(), said("add", "1"), ended(1.0)):
                await connection.recv()
                await asyncio.sleep(0.2)
                await connection.send(frame)

        async with peer(slow) as server, opened(Shared(server.url), "train", 0) as session:
            at_reset = session.env_seconds
            await asyncio.sleep(0.5)  # the model thinks
            assert session.env_seconds == at_reset >= 0.2
            await session.call("add", {"n": 1})
            await session.end_turn("x")
            assert session.env_seconds >= 0.6


class TestTheModelsMistakes:
    @pytest.mark.parametrize("kind", ["tool_not_found", "invalid_args", "execution_error"])
    async def test_are_text_for_it_and_the_session_lives(self, kind):
        handler = scripted(first_turn(), refused("add", kind, "n: expected an integer"), ended(0.0))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("add", {"n": "x"})
            assert (answer.text, answer.is_error) == ("n: expected an integer", True)
            assert await session.end_turn("") == Ended(0.0)

    @pytest.mark.parametrize(
        "arguments",
        [["n"], "n=3", None, {"n": float("nan")}, {"n": float("inf")}, {"n": "\ud800"}, {"\udfff": 1}, {"n": b"x"}],
    )
    async def test_arguments_that_are_no_json_never_reach_a_tool(self, arguments):
        async with peer(sums) as server, opened(Shared(server.url), "train", 0) as session:
            answer = await session.call("add", arguments)
            assert answer.is_error
            assert answer.text.startswith("The arguments of add ")
            assert (await session.call("add", {"n": 2})).text == "2"
        assert [request["type"] for request in server.requests] == ["reset", "step"]

    async def test_arguments_over_the_limit_never_reach_a_tool(self):
        async with peer(sums) as server, opened(Shared(server.url, max_message_bytes=2000), "train", 0) as session:
            assert "over the limit of 2000" in (await session.call("add", {"n": "x" * 2001})).text
        assert len(server.requests) == 1

    async def test_half_a_surrogate_pair_in_a_name_or_a_reply(self):
        async with peer(sums) as server, opened(Shared(server.url), "train", 0) as session:
            assert (await session.call("ad\ud800", {})).is_error
            assert isinstance(await session.end_turn("bye\ud800"), Ended)
        assert server.requests[-1]["data"]["arguments"] == {"response": "bye?"}

    async def test_end_turn_is_not_called_as_a_tool(self):
        async with peer(sums) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(ValueError, match=r"await Session\.end_turn"):
                await session.call("end_turn", {"response": "x"})


class TestTheServersFailures:
    @pytest.mark.parametrize("kind", ["timeout", "transport_error", "something_new"])
    async def test_of_a_tool_fail_the_episode(self, kind):
        handler = scripted(first_turn(), refused("add", kind, "no answer from the sandbox"))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeFailed, match=f"no answer from the sandbox.*{kind}"):
                await session.call("add", {"n": 1})

    @pytest.mark.parametrize("code", ["EXECUTION_ERROR", "FACTORY_ERROR", "SESSION_ERROR", None])
    async def test_error_frames_fail_the_episode(self, code):
        async with peer(scripted(error(code, "boom"))) as server:
            with pytest.raises(EpisodeFailed, match="boom"):
                async with opened(Shared(server.url), "train", 0):
                    pass

    async def test_a_message_it_does_not_take_is_a_configuration_error(self):
        handler = scripted(first_turn(), error("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["move"]}]))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(NotATaskServer, match=r"Invalid message.*move"):
                await session.call("add", {"n": 1})

    async def test_an_episode_that_says_it_failed_has_failed_whatever_its_reward(self):
        broken = failed("the deploy failed")
        broken["data"]["reward"] = 0.0
        async with peer(scripted(broken)) as server:
            with pytest.raises(EpisodeFailed, match="the deploy failed"):
                async with opened(Shared(server.url), "train", 0):
                    pass

    async def test_a_failure_in_a_call_or_at_the_end(self):
        in_a_call, at_the_end = (scripted(first_turn(), failed(name=name)) for name in ("add", "end_turn"))
        async with peer(in_a_call) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeFailed, match="the env broke"):
                await session.call("add", {"n": 1})
        async with peer(at_the_end) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeFailed, match="the env broke"):
                await session.end_turn("x")

    @pytest.mark.parametrize(
        ("reward", "came"),
        [
            (None, "without a reward"),
            (float("nan"), "nan"),
            (float("inf"), "inf"),
            (True, "True"),
            ("0.5", "'0.5'"),
            ([1], r"\[1\]"),
        ],
    )
    async def test_an_end_without_a_number_is_unscored_and_says_what_came(self, reward, came):
        handler = scripted(first_turn(), ended(reward))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeUnscored, match=came):
                await session.end_turn("x")

    @pytest.mark.parametrize("score", [float("nan"), None, True, "1"])
    async def test_a_score_without_a_number_is_unscored_and_names_its_step(self, score):
        handler = scripted(first_turn(), ended(1.0, good=1, grade=score))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeUnscored, match="grade"):
                await session.end_turn("x")

    async def test_an_answer_to_another_call_loses_the_session(self):
        handler = scripted(first_turn(), said("search", "found"))
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(SessionLost, match="'search'"):
                await session.call("add", {"n": 1})

    @pytest.mark.parametrize(
        "frame", [b"\x00\x01", "no json", "[1, 2]", '{"type": "state", "data": {}}', '{"type": 1}']
    )
    async def test_garbage_in_place_of_an_answer(self, frame):
        handler = scripted(first_turn(), frame)
        async with peer(handler) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(SessionLost, match="no frame of OpenEnv's"):
                await session.call("add", {"n": 1})
        async with peer(scripted(frame)) as server:
            with pytest.raises(NotATaskServer, match="no frame of OpenEnv's"):
                async with opened(Shared(server.url), "train", 0):
                    pass

    async def test_a_dropped_socket_is_lost_and_the_call_is_sent_once(self):
        calls = 0

        async def drops(connection: Any) -> None:
            nonlocal calls
            await connection.recv()
            await connection.send(first_turn())
            await connection.recv()
            calls += 1
            connection.transport.abort()

        async with peer(drops) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(SessionLost, match="add"):
                await session.call("add", {"n": 1})
            # The session is over: it says so, and opens no second socket.
            with pytest.raises(SessionLost, match="the session is over"):
                await session.call("add", {"n": 1})
            with pytest.raises(SessionLost, match="the session is over"):
                await session.end_turn("x")
            assert isinstance(session.error, SessionLost)
        assert calls == 1
        assert len(server.headers) == 1

    async def test_a_service_restart_in_an_episode_loses_it(self):
        async def restarts(connection: Any) -> None:
            await connection.recv()
            await connection.send(first_turn())
            await connection.recv()
            await connection.close(1012)

        async with peer(restarts) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(SessionLost, match=r"1012 \(service restart\)"):
                await session.call("submit", {})

    @pytest.mark.parametrize("code", [1012, None])
    async def test_a_server_that_leaves_between_two_requests_is_noticed_at_once(self, code):
        gone = asyncio.Event()

        async def leaves(connection: Any) -> None:
            await connection.recv()
            await connection.send(first_turn())
            await gone.wait()
            if code is None:
                connection.transport.abort()
            else:
                await connection.close(code)

        async with peer(leaves) as server, opened(Shared(server.url), "train", 0) as session:
            watching = asyncio.create_task(session.lost())
            done, _ = await asyncio.wait({watching}, timeout=0.3)
            assert not done
            gone.set()
            async with asyncio.timeout(20):
                lost = await watching
            assert isinstance(lost, SessionLost)
            assert str(code or "no close frame") in str(lost)
            with pytest.raises(SessionLost, match="the session is over"):
                await session.call("add", {"n": 1})

    async def test_a_session_that_ended_in_an_error_is_lost_by_that_error(self):
        async with peer(scripted(first_turn(), failed())) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(EpisodeFailed):
                await session.call("add", {"n": 1})
            async with asyncio.timeout(20):
                assert isinstance(await session.lost(), EpisodeFailed)

    async def test_a_late_answer_is_nobodys(self):
        async def freezes(connection: Any) -> None:
            await connection.recv()
            await connection.send(first_turn())
            await connection.recv()
            await asyncio.sleep(1.0)
            await connection.send(said("add", "late"))

        async with peer(freezes) as server, opened(Shared(server.url, call_timeout=0.3), "train", 0) as session:
            with pytest.raises(CallTimedOut, match=r"add: no answer in 0\.3 s"):
                await session.call("add", {"n": 1})
            await server.until_closed()  # at once, though `opened` is still open
            with pytest.raises(SessionLost, match="the session is over"):
                await session.call("add", {"n": 2})
        assert len(server.requests) == 2

    @pytest.mark.parametrize("what", ["call", "list_tools", "end_turn"])
    async def test_every_request_has_a_deadline(self, what):
        async with peer(scripted(first_turn())) as server:
            async with opened(Shared(server.url, call_timeout=0.2), "train", 0) as session:
                request = {
                    "call": lambda: session.call("add", {"n": 1}),
                    "list_tools": session.list_tools,
                    "end_turn": lambda: session.end_turn("x"),
                }[what]()
                with pytest.raises(CallTimedOut, match=r"no answer in 0\.2 s"):
                    await request
            await server.until_closed()

    async def test_a_reset_without_an_answer_times_out(self):
        async with peer(scripted()) as server:
            with pytest.raises(CallTimedOut, match=r"reset: no answer in 0\.3 s"):
                async with opened(Shared(server.url, reset_timeout=0.3), "train", 0):
                    pass
            await server.until_closed()

    async def test_a_large_answer_is_taken_and_a_larger_one_costs_its_session(self):
        # A frame of 2.5 MiB: `websockets` alone would refuse anything over 1 MiB.
        text = "x" * (1280 * 1024)
        handler = scripted(first_turn(), said("read", text), said("read", text * 2))
        async with peer(handler) as server:
            shared = Shared(server.url, max_message_bytes=3 * 1024 * 1024)
            async with opened(shared, "train", 0) as session:
                assert (await session.call("read", {})).text == text
                with pytest.raises(SessionLost, match=r"max_message_bytes \(3145728\)"):
                    await session.call("read", {})


class TestNoTaskServer:
    async def test_without_metadata_openenv_core_03_is_named(self):
        old = {"type": "observation", "data": {"observation": {"prompt": "x"}, "reward": None, "done": False}}
        async with peer(scripted(old)) as server:
            with pytest.raises(NotATaskServer, match=r"no observation\.metadata.*openenv-core 0\.3.*0\.9 or newer"):
                async with opened(Shared(server.url), "train", 0):
                    pass

    async def test_without_a_prompt(self):
        async with peer(scripted(observation(metadata={"step": 0}))) as server:
            with pytest.raises(NotATaskServer, match="has no prompt"):
                async with opened(Shared(server.url), "train", 0):
                    pass

    async def test_with_another_task_than_asked_for(self):
        async with peer(scripted(first_turn("eval", 0))) as server:
            with pytest.raises(NotATaskServer, match=r"asked for train\[3\], the server reset to eval\[0\]"):
                async with opened(Shared(server.url), "train", 3):
                    pass

    async def test_without_a_tool_that_ends_a_turn(self):
        tools = observation({"tools": TOOLS["data"]["observation"]["tools"][:1]})
        async with peer(scripted(first_turn(), tools)) as server:
            with pytest.raises(NotATaskServer, match=r"no end_turn among the tools \(add\)"):
                await probe(Shared(server.url), "train", 0)

    async def test_tools_that_could_not_be_listed_are_the_servers_failure(self):
        unlisted = observation({"tools": []}, metadata={"error": "the MCP server is down"})
        async with peer(scripted(first_turn(), unlisted)) as server:
            with pytest.raises(EpisodeFailed, match="the MCP server is down"):
                await probe(Shared(server.url), "train", 0)


class TestWaiting:
    async def test_a_refusal_is_an_error_at_once_unless_it_is_waited_out(self):
        shared = Shared(f"http://127.0.0.1:{free_port()}")
        with pytest.raises(ServerUnreachable) as caught:
            async with opened(shared, "train", 0, deadline=soon(30)):
                pass
        assert "waited" not in str(caught.value)
        with pytest.raises(ServerUnreachable, match=r"waited \d\.\d s for it, in \d+ tries"):
            async with opened(shared, "train", 0, waits_for_server=True, deadline=soon(0.8)):
                pass

    async def test_a_server_that_comes_back_is_waited_for(self):
        port = free_port()

        async def play() -> Ended | NextTurn:
            shared = Shared(f"http://127.0.0.1:{port}")
            async with opened(shared, "train", 0, waits_for_server=True, deadline=soon(60)) as session:
                assert session.env_seconds >= 0.3
                return await session.end_turn("x")

        rollout = asyncio.create_task(play())
        await asyncio.sleep(0.5)
        assert not rollout.done()
        async with peer(sums, port=port):
            assert await rollout == Ended(0.0, {"sum": 0.0})

    async def test_a_handshake_dropped_midway_is_a_server_coming_back(self):
        drops = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal drops
            drops += 1
            await reader.readuntil(b"\r\n\r\n")
            if drops % 2:
                writer.write(b"HTTP/1.1 101 Switching")
                await writer.drain()
            else:
                writer.transport.abort()

        async with raw_peer(talk) as url:
            with pytest.raises(ServerUnreachable, match="dropped during the handshake"):
                async with opened(Shared(url), "train", 0):
                    pass
            with pytest.raises(ServerUnreachable, match=r"waited .* in \d+ tries"):
                async with opened(Shared(url), "train", 0, waits_for_server=True, deadline=soon(1)):
                    pass
        assert drops >= 3

    @pytest.mark.parametrize("code", [None, 1001, 1012, 1013])
    async def test_a_server_that_goes_away_before_the_reset_is_answered(self, code):
        resets = 0

        async def dies_once(connection: Any) -> None:
            nonlocal resets
            await connection.recv()
            resets += 1
            if resets > 1:
                await connection.send(first_turn())
            elif code is None:
                connection.transport.abort()
            else:
                await connection.close(code)

        async with peer(dies_once) as server:
            with pytest.raises(ServerUnreachable, match="went away before it answered"):
                async with opened(Shared(server.url), "train", 0):
                    pass
            resets = 0
            async with opened(Shared(server.url), "train", 0, waits_for_server=True):
                assert resets == 2

    async def test_a_reset_that_closes_its_own_session_is_lost_not_waited_for(self):
        async def breaks(connection: Any) -> None:
            await connection.recv()
            await connection.close(1011, "reset failed")

        async with peer(breaks) as server:
            with pytest.raises(SessionLost, match="1011"):
                async with opened(Shared(server.url), "train", 0, waits_for_server=True):
                    pass

    async def test_a_full_server_is_waited_for_within_the_deadline(self):
        refusals = 3

        async def full(connection: Any) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                # OpenEnv accepts the socket, says so and closes, whether or not it was asked anything.
                await connection.send(error("CAPACITY_REACHED", "Server at capacity: 2/2 sessions active."))
                return
            await sums(connection)

        async with peer(full) as server:
            async with opened(Shared(server.url), "train", 0, deadline=soon(60)) as session:
                assert await session.end_turn("x") == Ended(0.0, {"sum": 0.0})
            assert refusals == 0
            refusals = 1000
            with pytest.raises(ServerAtCapacity, match=r"2/2 sessions active.*waited \d\.\d s for it, in \d+ tries"):
                async with opened(Shared(server.url), "train", 0, deadline=soon(0.7)):
                    pass

    async def test_too_many_requests_are_waited_out_also_by_who_never_reached_the_server(self):
        async with peer(sums, refuse=429) as server:
            with pytest.raises(ServerAtCapacity, match=r"HTTP 429.*waited"):
                async with opened(Shared(server.url), "train", 0, deadline=soon(2)):
                    pass
        assert len(server.headers) >= 2

    @pytest.mark.parametrize("status", [502, 503, 504])
    async def test_a_gateway_without_its_server_is_waited_for(self, status):
        async with peer(sums, refuse=status) as server:
            with pytest.raises(ServerUnreachable, match=f"HTTP {status}.*waited"):
                async with opened(Shared(server.url), "train", 0, waits_for_server=True, deadline=soon(2)):
                    pass
        assert len(server.headers) >= 2

    async def test_a_last_try_that_the_deadline_cuts_short_does_not_hide_the_reason(self):
        tries = 0

        async def refuses_once_then_says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal tries
            tries += 1
            await reader.readuntil(b"\r\n\r\n")
            if tries == 1:
                writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            else:
                await reader.read()

        async with raw_peer(refuses_once_then_says_nothing) as url:
            with pytest.raises(ServerUnreachable, match=r"HTTP 503.*waited \d\.\d s for it, in 2 tries"):
                async with opened(Shared(url), "train", 0, waits_for_server=True, deadline=soon(3)):
                    pass


class TestToken:
    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_refusal_is_never_waited_out(self, monkeypatch, status):
        monkeypatch.setenv("TOKEN_OF_TEST", "secret-value")
        async with peer(sums, refuse=status) as server:
            with pytest.raises(TokenRefused, match=f"HTTP {status}: the server refuses the token in environment"):
                async with opened(Shared(server.url, "TOKEN_OF_TEST"), "train", 0, waits_for_server=True):
                    pass
            with pytest.raises(TokenRefused, match="the server asks for a token"):
                async with opened(Shared(server.url), "train", 0, waits_for_server=True):
                    pass
        assert [headers.get("Authorization") for headers in server.headers] == ["Bearer secret-value", None]

    async def test_it_is_read_when_it_is_used(self, monkeypatch):
        monkeypatch.delenv("TOKEN_OF_TEST", raising=False)
        async with peer(sums) as server:
            shared = Shared(server.url, "TOKEN_OF_TEST")
            with pytest.raises(InputError, match="TOKEN_OF_TEST: is not set"):
                async with opened(shared, "train", 0, waits_for_server=True):
                    pass
            monkeypatch.setenv("TOKEN_OF_TEST", "late")
            async with opened(shared, "train", 0):
                pass
        assert [headers["Authorization"] for headers in server.headers] == ["Bearer late"]

    async def test_it_is_in_no_repr_log_or_error(self, monkeypatch, caplog):
        monkeypatch.setenv("TOKEN_OF_TEST", "secret-value")
        caplog.set_level(logging.DEBUG)  # where `websockets` by itself writes out the headers of a handshake
        errors = []
        for refuse in (None, 401, 503):
            async with peer(sums, refuse=refuse) as server:
                shared = Shared(server.url, "TOKEN_OF_TEST")
                with contextlib.suppress(SessionError) if refuse else contextlib.nullcontext():
                    async with opened(shared, "train", 0) as session:
                        await session.finish("x")
                with pytest.raises(SessionError) as caught:
                    await read_tasks(shared)
                errors.append(caught.value)
            assert server.headers[0]["Authorization"] == "Bearer secret-value"
        said = "".join(traceback.format_exception(ExceptionGroup("all", errors)))
        logged = "".join(record.getMessage() for record in caplog.records if record.name != "websockets.server")
        assert "/ws" in caplog.text
        assert "secret-value" not in repr(shared) + said + logged
        assert b"secret-value" not in pickle.dumps(shared)


class TestLeaving:
    @pytest.mark.parametrize("while_in", ["reset", "call"])
    async def test_a_cancelled_caller_closes_the_socket_at_once(self, while_in):
        asked = asyncio.Event()

        async def freezes(connection: Any) -> None:
            await connection.recv()
            if while_in == "call":
                await connection.send(first_turn())
                await connection.recv()
            asked.set()
            await connection.wait_closed()

        async def caller(url: str) -> None:
            async with opened(Shared(url), "train", 0) as session:
                await session.call("add", {"n": 1})

        async with peer(freezes) as server:
            task = asyncio.create_task(caller(server.url))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until_closed()

    async def test_a_cancelled_call_ends_the_session_whose_answer_it_missed(self):
        async def slow(connection: Any) -> None:
            await connection.recv()
            await connection.send(first_turn())
            await connection.recv()
            await connection.wait_closed()

        async with peer(slow) as server, opened(Shared(server.url), "train", 0) as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await session.call("add", {"n": 1})
            with pytest.raises(SessionLost, match="cancelled"):
                await session.call("add", {"n": 2})

    async def test_an_error_of_the_caller_closes_the_socket(self):
        async with peer(sums) as server:
            with pytest.raises(KeyError):
                async with opened(Shared(server.url), "train", 0):
                    raise KeyError("the model's server is gone")
            await server.until_closed()

    async def test_a_peer_that_never_says_goodbye_does_not_hold_its_caller(self):
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Shakes hands and answers the reset by hand, then reads without ever closing.
            import base64
            import hashlib

            request = await reader.readuntil(b"\r\n\r\n")
            key = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
            digest = hashlib.sha1(key.split(b": ")[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
            )
            payload = json.dumps(first_turn()).encode()
            writer.write(b"\x81\x7e" + len(payload).to_bytes(2, "big") + payload)
            await writer.drain()
            await reader.read()

        async with raw_peer(talk) as url, asyncio.timeout(30), opened(Shared(url), "train", 0):
            pass
