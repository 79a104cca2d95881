"""Rollouts: attempts on new episodes, none after the deadline, and every failure kept."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent_env.errors import (
    CallTimedOut,
    EpisodeFailed,
    EpisodeUnscored,
    InputError,
    RolloutFailed,
    ServerUnreachable,
    SessionLost,
    TokenRefused,
)
from agent_env.training.rollout import play
from agent_env.training.sessions import Session, Shared
from support.peers import ended, failed, first_turn, free_port, peer, said, sums


async def three(session: Session) -> str:
    """Adds 1 and 2."""
    await session.call("add", {"n": 1})
    answer = await session.call("add", {"n": 2})
    await session.finish("done")
    return answer.text


class Flaky:
    """A peer whose first `failures` episodes drop their socket in the first call; then it plays `sums`."""

    def __init__(self, failures: int) -> None:
        self.failures, self.episodes, self.calls_dropped = failures, 0, 0

    async def __call__(self, connection: Any) -> None:
        self.episodes += 1
        if self.episodes > self.failures:
            await sums(connection)
        request = await connection.recv()
        await connection.send(first_turn(request["data"]["split"], request["data"]["index"]))
        await connection.recv()
        self.calls_dropped += 1
        connection.transport.abort()


async def test_one_attempt_is_enough_when_nothing_fails():
    async with peer(sums) as server:
        played = await play(Shared(server.url), "train", 5, three)
    assert (played.value, played.reward, played.scores) == ("3", 0.3, {"sum": 0.3})
    assert (played.attempts, played.failures) == (1, ())


async def test_a_lost_episode_is_replayed_from_its_start_on_a_new_one():
    flaky = Flaky(failures=2)
    async with peer(flaky) as server:
        played = await play(Shared(server.url), "train", 5, three, attempts=3, seed=11)
    # 0.3, not more: the calls of the lost episodes count for nothing.
    assert (played.reward, played.attempts) == (0.3, 3)
    assert [type(error) for error in played.failures] == [SessionLost, SessionLost]
    assert flaky.calls_dropped == 2
    # Every attempt is of one task and one seed, each on a socket of its own.
    resets = [request["data"] for request in server.requests if request["type"] == "reset"]
    assert resets == [{"split": "train", "index": 5, "seed": 11}] * 3
    assert len(server.headers) == 3


async def test_every_attempt_failing_raises_with_all_their_errors():
    answers = [failed("no deploy"), None, failed("out of memory", "add")]

    async def handler(connection: Any) -> None:
        broken = answers.pop(0)
        await connection.recv()
        if broken is not None and not answers:
            await connection.send(first_turn())
            await connection.recv()
        if broken is None:
            await connection.close(1011)
            return
        await connection.send(broken)

    async with peer(handler) as server:
        with pytest.raises(RolloutFailed, match="all 3 attempts failed") as caught:
            await play(Shared(server.url), "train", 0, three, attempts=3)
    first, second, third = caught.value.attempts
    assert isinstance(first, EpisodeFailed)
    assert "no deploy" in str(first)
    assert isinstance(second, SessionLost)
    assert isinstance(third, EpisodeFailed)
    assert "out of memory" in str(caught.value)
    assert caught.value.__cause__ is third


async def test_no_attempt_starts_once_the_time_is_up():
    async def slow(connection: Any) -> None:
        await connection.recv()
        await connection.send(first_turn())
        await connection.recv()
        await asyncio.sleep(1.2)
        connection.transport.abort()

    async with peer(slow) as server:
        with pytest.raises(RolloutFailed, match=r"the 1 s in which it could be played again are over") as caught:
            await play(Shared(server.url), "train", 0, three, attempts=5, reset_timeout=1.0)
    assert len(caught.value.attempts) == 1
    assert len(server.headers) == 1


async def test_a_call_past_its_deadline_is_replayed():
    frozen = True

    async def freezes_once(connection: Any) -> None:
        nonlocal frozen
        if not frozen:
            await sums(connection)
        frozen = False
        await connection.recv()
        await connection.send(first_turn())
        await connection.recv()
        await connection.wait_closed()

    async with peer(freezes_once) as server:
        played = await play(Shared(server.url, call_timeout=1.5), "train", 0, three)
    assert [type(error) for error in played.failures] == [CallTimedOut]
    assert played.env_seconds >= 1.5  # the lost attempt's seconds count


async def test_a_server_that_never_comes_back_fails_the_rollout_not_the_run():
    shared = Shared(f"http://127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(RolloutFailed) as caught:
        await play(shared, "train", 0, three, reset_timeout=0.6)
    (error,) = caught.value.attempts
    assert isinstance(error, ServerUnreachable)
    assert "waited" in str(error)
    assert time.monotonic() - started < 30


async def test_a_refused_token_stops_at_once():
    async with peer(sums, refuse=401) as server:
        with pytest.raises(TokenRefused):
            await play(Shared(server.url), "train", 0, three, attempts=5)
    assert len(server.headers) == 1


async def test_an_unscored_episode_stops_at_once():
    async def unscored(connection: Any) -> None:
        for frame in (first_turn(), said("add", "1"), said("add", "3"), ended(None)):
            await connection.recv()
            await connection.send(frame)

    async with peer(unscored) as server:
        with pytest.raises(EpisodeUnscored):
            await play(Shared(server.url), "train", 0, three, attempts=5)
    assert len(server.headers) == 1


async def test_a_player_that_swallows_a_lost_episode_does_not_get_it_scored():
    async def swallows(session: Session) -> str:
        results = await asyncio.gather(session.call("add", {"n": 1}), return_exceptions=True)
        return str(results)

    flaky = Flaky(failures=9)
    async with peer(flaky) as server:
        with pytest.raises(RolloutFailed) as caught:
            await play(Shared(server.url), "train", 0, swallows, attempts=2)
    assert [type(error) for error in caught.value.attempts] == [SessionLost, SessionLost]


async def test_a_players_own_error_passes_and_frees_the_session():
    async def breaks(session: Session) -> None:
        raise ZeroDivisionError("the model's server is gone")

    async with peer(sums) as server:
        with pytest.raises(ZeroDivisionError):
            await play(Shared(server.url), "train", 0, breaks, attempts=5)
        await server.until_closed()
    assert len(server.headers) == 1


async def test_a_player_must_end_its_episode():
    async def forgets(session: Session) -> None:
        await session.call("add", {"n": 1})

    async with peer(sums) as server:
        with pytest.raises(RuntimeError, match=r"await Session\.finish"):
            await play(Shared(server.url), "train", 0, forgets)


async def test_attempts_below_one():
    with pytest.raises(InputError, match="attempts: expected 1 or more, got 0"):
        await play(Shared("http://127.0.0.1:1"), "train", 0, three, attempts=0)


async def test_cancelling_a_rollout_frees_its_session():
    async def thinks(session: Session) -> None:
        await asyncio.sleep(60)

    async with peer(sums) as server:
        rollout = asyncio.create_task(play(Shared(server.url), "train", 0, thinks))
        await server.until_asked()
        rollout.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rollout
        await server.until_closed()
