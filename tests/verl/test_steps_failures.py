"""What an episode in the step layout survives: environments and servers that fail, are killed and come back."""

import asyncio
import threading

import pytest

from agent_env.errors import CallTimedOut, EpisodeFailed, RolloutFailed, SessionLost, TokenRefused
from agent_env.training.shared import Shared
from agent_env.training.traces import read_traces
from support.restarting import Restarting
from support.servers import serving
from support.verl_tier import CORRIDOR, Written, rollout

EAST, BREAK, NAP = "<action>east</action>", "<action>break</action>", "<action>nap</action>"
PLAIN = {"step_prompt": None, "memory": "full"}


@pytest.fixture(scope="session")
def tokenizer(qwen3):
    """What fails does not depend on the tokenizer."""
    return qwen3


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Rows of a server that asks for a token."""
    with serving(CORRIDOR, "--token-var", "SERVED_TOKEN", env={"SERVED_TOKEN": "s3cret"}) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CORRIDOR_TOKEN", "s3cret")
            shared = Shared(server.url, "CORRIDOR_TOKEN")
            rows = Written(shared, tmp_path_factory.mktemp("guarded") / "data", context="steps", bundle=CORRIDOR)
        yield rows


@pytest.fixture
def own():
    """A server of the test's own, to be ended by it."""
    server = Restarting(CORRIDOR, "--max-sessions", "1")
    yield server
    server.stop()


@pytest.fixture
def walk(own, qwen3, tmp_path):
    """Play a task of `own` in the step layout; its rows were written while it ran."""
    rows = Written(Shared(own.url), tmp_path / "data", context="steps", bundle=CORRIDOR)

    async def walk(task, *replies, **options):
        return await rollout(qwen3, rows, f"train-{task}", *replies, **{**PLAIN, **options})

    return walk


class TestReplays:
    async def test_a_replay_keeps_no_row_and_no_memory_of_the_lost_episode(self, walk):
        played = await walk("lost-once", EAST, BREAK, EAST, EAST, EAST)
        assert played.rows[0]["reward_extra_info"]["attempts"] == 2
        assert [row["step"] for row in played.rows] == [0, 1, 2]
        assert [row["state"] for row in played.rows] == ["cell 0", "cell 1", "cell 2"]
        assert played.model.prompts[0] == played.model.prompts[2]  # the second attempt knows nothing of the first
        assert [row.prompt_ids for row in played.output] == played.model.prompts[2:]
        assert [row.response_ids for row in played.output] == played.model.replies[2:]
        assert played.output[0].reward_score == 1.0
        assert played.rows[0]["min_global_steps"] == 3

    async def test_a_failure_is_no_text_for_the_model_and_no_reward(self, walk, tmp_path):
        with pytest.raises(RolloutFailed, match="all 2 attempts failed") as failed:
            await walk("lost", EAST, BREAK, BREAK, attempts=2, traces=str(tmp_path / "traces"))
        assert [type(error) for error in failed.value.attempts] == [EpisodeFailed] * 2
        assert "the floor gave way" in str(failed.value.attempts[0])
        (trace,) = read_traces(tmp_path / "traces")
        assert (trace.status, trace.attempts, trace.reward, trace.steps) == ("failed", 2, None, ())

    async def test_a_call_past_its_deadline_is_a_lost_episode_and_not_sent_again(self, walk):
        with pytest.raises(RolloutFailed) as failed:
            await walk("three", EAST, NAP, attempts=1, call_timeout=0.5)
        assert [type(error) for error in failed.value.attempts] == [CallTimedOut]

    async def test_a_server_killed_in_an_episode_is_waited_for(self, own, walk):
        def killed(prompt_ids):
            own.kill()
            threading.Timer(1.0, own.start).start()
            return EAST

        played = await walk("three", EAST, killed, EAST, EAST, EAST, attempts=2)
        assert played.output[0].reward_score == 1.0
        assert played.rows[0]["reward_extra_info"]["attempts"] == 2
        assert len(played.output) == 3

    async def test_generating_is_given_up_as_soon_as_the_server_is_gone(self, own, walk):
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
                await walk("three", EAST, endless, attempts=1)
        assert given_up.is_set()
        assert isinstance(failed.value.attempts[0], SessionLost)


async def test_a_cancelled_rollout_frees_its_session(walk):
    generating = asyncio.Event()

    async def endless(prompt_ids):
        generating.set()
        await asyncio.sleep(3600)

    one = asyncio.create_task(walk("three", EAST, endless))
    async with asyncio.timeout(60):
        await generating.wait()
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        # The server admits one session: it would not be there if the first were not gone.
        assert (await walk("one", EAST)).output[0].reward_score == 1.0


async def test_a_server_that_generates_nothing_is_a_failure(walk):
    with pytest.raises(RolloutFailed, match="generated no token"):
        await walk("three", EAST, [])


class TestTokens:
    async def test_the_right_one_plays(self, qwen3, guarded, monkeypatch):
        monkeypatch.setenv("CORRIDOR_TOKEN", "s3cret")
        assert len((await rollout(qwen3, guarded, "train-one", EAST, **PLAIN)).output) == 1

    async def test_another_is_refused_at_once(self, qwen3, guarded, monkeypatch):
        monkeypatch.setenv("CORRIDOR_TOKEN", "wrong")
        with pytest.raises(TokenRefused):
            await rollout(qwen3, guarded, "train-one", EAST, **PLAIN)
