"""What a rollout survives: servers that fail, stop, are killed and come back; what it does not; tokens; cancelling."""

import asyncio
import threading
import time

import pytest

from agent_env.errors import EpisodeFailed, InputError, RolloutFailed, ServerUnreachable, SessionLost, TokenRefused
from agent_env.training.shared import Shared
from support.peers import first_turn, free_port, peer
from support.restarting import Restarting
from support.servers import serving
from support.verl_tier import WORKSHOP, Written, hermes, rollout, trainer_config

FETCH = hermes(("fetch", {}))


@pytest.fixture(scope="session")
def tokenizer(qwen3):
    """What fails does not depend on the tokenizer."""
    return qwen3


@pytest.fixture
def own():
    """A server of the test's own, to be ended by it."""
    server = Restarting(WORKSHOP, "--max-sessions", "1")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def guarded():
    """A server that asks for a token."""
    with serving(WORKSHOP, "--token-var", "SERVED_TOKEN", env={"SERVED_TOKEN": "s3cret"}) as server:
        yield server


@pytest.fixture
def restarting(own, qwen3, tmp_path):
    """Plays on `own`, whose rows were written while it ran."""
    rows = Written(Shared(own.url), tmp_path / "data")

    async def play(task, *replies, **options):
        return await rollout(qwen3, rows, f"train-{task}", *replies, **options)

    return play


class TestReplays:
    async def test_a_lost_episode_is_played_again_from_its_start(self, play):
        played = await play("lost-once", FETCH, FETCH, "red")
        assert played.output.reward_score == 1.0
        assert played.info["attempts"] == 2
        assert played.answers == ["fetched in episode 2"]
        first, second, _ = played.model.prompts
        assert first == second == played.output.prompt_ids
        assert sum(played.output.response_mask) == sum(map(len, played.model.replies[1:]))
        assert played.output.response_logprobs[0] == -(len(played.model.replies[0]) + 1) / 1000
        assert played.output.extra_fields["min_global_steps"] == 2  # of the attempt that counts

    async def test_a_failure_is_no_text_for_the_model_and_no_reward(self, play):
        with pytest.raises(RolloutFailed, match="all 3 attempts failed") as failed:
            await play("lost", FETCH, FETCH, FETCH)
        assert [type(error) for error in failed.value.attempts] == [EpisodeFailed] * 3
        assert "the shelf fell down" in str(failed.value.attempts[0])

    async def test_none_starts_once_the_time_is_up(self, play):
        async def slowly(prompt_ids):
            await asyncio.sleep(2.5)
            return FETCH

        with pytest.raises(RolloutFailed, match="the 2 s in which it could be played again are over") as failed:
            await play("lost", slowly, attempts=5, reset_timeout=2.0)
        assert len(failed.value.attempts) == 1

    async def test_a_call_past_its_deadline_is_a_lost_episode(self, play):
        nap = hermes(("write", {"text": "a", "seconds": 30}))
        with pytest.raises(RolloutFailed, match="all 2 attempts") as failed:
            await play("one", nap, nap, attempts=2, call_timeout=0.5)
        assert "no answer in 0.5 s" in str(failed.value.attempts[0])

    async def test_a_failed_parallel_call_fails_the_attempt_and_stops_the_calls_after_it(self, play):
        config = trainer_config(multi_turn__max_parallel_calls=4)
        calls = hermes(("write", {"text": "a"}), ("fetch", {}), ("write", {"text": "b"}))
        with pytest.raises(RolloutFailed) as failed:
            await play("lost", calls, config=config, attempts=1)
        assert "the shelf fell down" in str(failed.value.attempts[0])


class TestRestarts:
    async def test_a_server_killed_in_an_episode_is_waited_for(self, own, restarting):
        def killed(prompt_ids):
            own.kill()
            threading.Timer(1.0, own.start).start()
            return hermes(("write", {"text": "lost"}))

        played = await restarting("one", killed, hermes(("write", {"text": "again"})), "red", attempts=2)
        assert played.output.reward_score == 1.0
        assert played.info["attempts"] == 2
        assert played.answers == ["again"]
        assert played.info["env_seconds"] >= 1.0

    async def test_a_server_stopped_in_an_episode_is_waited_for(self, own, restarting):
        def restart():
            own.stop()
            time.sleep(1.0)
            own.start()

        async def stopped(prompt_ids):
            threading.Thread(target=restart).start()
            await asyncio.sleep(3600)

        played = await restarting("one", stopped, "red", attempts=2)
        assert (played.output.reward_score, played.info["attempts"]) == (1.0, 2)

    async def test_a_server_that_is_down_when_a_rollout_begins_delays_it(self, own, restarting):
        own.kill()
        threading.Timer(1.0, own.start).start()
        played = await restarting("one", "red")
        assert (played.output.reward_score, played.info["attempts"]) == (1.0, 1)
        assert played.info["env_seconds"] >= 1.0

    async def test_a_server_that_stays_down_fails_the_rollout_in_time(self, own, restarting):
        own.kill()
        started = time.monotonic()
        with pytest.raises(RolloutFailed) as failed:
            await restarting("one", "red", reset_timeout=1.5)
        assert time.monotonic() - started < 30
        assert isinstance(failed.value.attempts[-1], ServerUnreachable)

    async def test_generating_is_given_up_as_soon_as_the_server_is_gone(self, own, restarting):
        given_up = asyncio.Event()

        async def endless(prompt_ids):
            threading.Timer(0.2, own.kill).start()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                given_up.set()
                raise

        with pytest.raises(RolloutFailed) as failed:
            async with asyncio.timeout(60):
                await restarting("one", endless, attempts=1)
        assert given_up.is_set()
        assert isinstance(failed.value.attempts[0], SessionLost)
        assert "between two requests" in str(failed.value.attempts[0])


class TestLeaving:
    async def test_a_cancelled_rollout_frees_its_session(self, own, restarting):
        generating = asyncio.Event()

        async def endless(prompt_ids):
            generating.set()
            await asyncio.sleep(3600)

        one = asyncio.create_task(restarting("one", endless))
        async with asyncio.timeout(60):
            await generating.wait()
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
            # The server admits one session: it would not be there if the first were not gone.
            assert (await restarting("one", "red")).output.reward_score == 1.0

    async def test_a_full_server_is_waited_for(self, own, restarting):
        holding = asyncio.Event()

        async def for_a_while(prompt_ids):
            holding.set()
            await asyncio.sleep(1.0)
            return "red"

        first = asyncio.create_task(restarting("one", for_a_while))
        await holding.wait()
        second = await restarting("one", "red")
        assert second.output.reward_score == (await first).output.reward_score == 1.0
        assert second.info["attempts"] == 1

    async def test_sessions_are_closed_after_every_kind_of_end(self, play):
        async def drops(connection):
            await connection.recv()
            task = first_turn()
            task["data"]["observation"]["metadata"]["task"] = {}
            await connection.send(task)
            await connection.recv()
            connection.transport.abort()

        async with peer(drops) as server:
            with pytest.raises(RolloutFailed) as failed:
                await play("one", "red", "red", attempts=2, url=server.url)
            assert [type(error) for error in failed.value.attempts] == [SessionLost] * 2
            await server.until_closed()


class TestTokens:
    async def test_the_right_one_plays(self, play, guarded, monkeypatch):
        monkeypatch.setenv("WORKSHOP_TOKEN", "s3cret")
        played = await play("one", "red", url=guarded.url, token_var="WORKSHOP_TOKEN")
        assert played.output.reward_score == 1.0

    async def test_one_in_a_file_plays_and_is_in_no_trace(self, play, guarded, tmp_path):
        (tmp_path / "tokens").write_text("s3cret\nanother-s3cret\n")
        traces = tmp_path / "traces"
        played = await play("one", "red", url=guarded.url, token_file=str(tmp_path / "tokens"), traces=str(traces))
        assert played.output.reward_score == 1.0
        files = [file for file in traces.rglob("*") if file.is_file()]
        assert files
        assert not any(b"s3cret" in file.read_bytes() for file in files)

    @pytest.mark.parametrize("token", ["wrong", None])
    async def test_any_other_is_refused_at_once(self, play, guarded, monkeypatch, token):
        if token is not None:
            monkeypatch.setenv("WORKSHOP_TOKEN", token)
        started = time.monotonic()
        with pytest.raises(TokenRefused):
            await play("one", "red", url=guarded.url, token_var=token and "WORKSHOP_TOKEN")
        assert time.monotonic() - started < 30  # of the 600 s that a server is waited for

    async def test_a_variable_that_is_not_set_is_named(self, play, guarded, monkeypatch):
        monkeypatch.delenv("WORKSHOP_TOKEN", raising=False)
        with pytest.raises(InputError, match="WORKSHOP_TOKEN"):
            await play("one", "red", url=guarded.url, token_var="WORKSHOP_TOKEN")


async def test_nothing_listens_where_no_server_ever_was(play):
    with pytest.raises(RolloutFailed) as failed:
        await play("one", "red", url=f"http://127.0.0.1:{free_port()}", reset_timeout=0.5)
    assert isinstance(failed.value.attempts[0], ServerUnreachable)
