"""What the three hosts have in common, each with the same environments."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_env.bundle import Bundle, load_bundle
from agent_env.episode import Ended, Episode
from agent_env.errors import EpisodeError, ScoreError
from agent_env.hosting.host import Host, host_for
from support.trials import write_trials
from support.waiting import until, within

MODES = ["async", "threads", "processes"]


@contextlib.asynccontextmanager
async def hosting(folder: Path, mode: str, capacity: int = 8, **trials: object) -> AsyncIterator[tuple[Host, Bundle]]:
    bundle = load_bundle(write_trials(folder, mode, **trials))  # type: ignore[arg-type]
    host = host_for(bundle, capacity)
    await host.start()
    try:
        yield host, bundle
    finally:
        await host.close()


async def started(host: Host, bundle: Bundle, index: int = 0, seed: int | None = None) -> Episode:
    episode = Episode(bundle, bundle.tasks("train")[index], await host.open(), seed)
    await episode.start()
    return episode


@pytest.mark.parametrize("mode", MODES)
async def test_an_episode_from_reset_to_reward(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as (host, bundle):
        episode = Episode(bundle, bundle.tasks("train")[1], await host.open(), 5)
        seen = await episode.start()
        assert seen is not None
        assert (seen.text, seen.actions, seen.info) == ("seed 5", ("echo",), {"seed": 5})
        assert (await episode.call("echo", {"text": "a\x00é\U0001f600"})).text == "a\x00é\U0001f600"
        looked = await episode.call("look", {"text": "a room", "reward": 0.5})
        assert looked.observation is not None
        assert (looked.observation.images, looked.observation.reward) == (("data:image/png;base64,AAAA",), 0.5)
        assert (await episode.call("ecko", {})).kind == "tool_not_found"
        assert (await episode.call("echo", {"text": 1})).kind == "invalid_args"
        assert (await episode.call("refuse", {})).kind == "tool_error"
        await episode.end_turn("0.5")
        ended = await episode.end_turn("yes")
        assert ended == Ended(0.75, {"first": 0.5, "second": 1.0})
        await episode.close()
        await episode.close()


@pytest.mark.parametrize("mode", MODES)
async def test_failures_of_the_environment(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as (host, bundle):
        for index, words in ((2, "there is no scene"), (4, "NaN")):
            handle = await host.open()
            episode = Episode(bundle, bundle.tasks("train")[index], handle)
            with pytest.raises(EpisodeError, match=words):
                await episode.start()
            await episode.close()
        for tool, words in (("fail", "the stove is on fire"), ("nan", "NaN"), ("exit", "KeyboardInterrupt")):
            episode = await started(host, bundle)
            with pytest.raises(EpisodeError, match=words):
                await episode.call(tool, {})
            await episode.close()
        episode = await started(host, bundle)
        assert (await episode.call("echo", {"text": "the next one is fine"})).text == "the next one is fine"
        await episode.close()


@pytest.mark.parametrize("mode", MODES)
async def test_a_bad_score_is_named(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as (host, bundle):
        for score in ("nan", "inf", "2", "many"):
            episode = await started(host, bundle)
            with pytest.raises(EpisodeError, match="first") as caught:
                await episode.end_turn(score)
            assert score == "many" or isinstance(caught.value, ScoreError)
            await episode.close()


@pytest.mark.parametrize("mode", MODES)
async def test_environments_run_beside_each_other_and_away_from_this_thread(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as (host, bundle):
        episodes = [await started(host, bundle, seed=number) for number in range(6)]
        began = time.monotonic()
        naps = [episode.call("nap", {"seconds": 1.0}) for episode in episodes]
        assert {result.text for result in await asyncio.gather(*naps)} == {"awake"}
        assert time.monotonic() - began < within(5.0)
        places = [(await episode.call("where", {})).data for episode in episodes]
        here = {"pid": os.getpid(), "thread": threading.get_ident()}
        assert here not in places
        separate = {"async": 1, "threads": 6, "processes": 6}[mode]
        key = "pid" if mode == "processes" else "thread"
        assert len({place[key] for place in places}) == separate
        for episode in episodes:
            await episode.close()


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_is_cancelled_is_cancelled_there_and_the_environment_closed(
    tmp_path: Path, mode: str
) -> None:
    log = tmp_path / "log"
    async with hosting(tmp_path, mode, log=str(log)) as (host, bundle):
        episode = await started(host, bundle)
        call = asyncio.create_task(episode.call("nap", {"seconds": 60}))
        await until(lambda: "nap" in log.read_text())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(EpisodeError):
            await episode.call("echo", {"text": "a"})
        await episode.close()
        # A worker process is killed instead, which closes what it holds.
        done = ["cancelled", "close"] if mode != "processes" else []
        assert [line.split()[0] for line in log.read_text().splitlines()] == ["reset", "nap", *done]


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_opens_once_the_host_is_closed(tmp_path: Path, mode: str) -> None:
    async with hosting(tmp_path, mode) as (host, bundle):
        episode = await started(host, bundle)
        await episode.close()
        await host.close()
        with pytest.raises(EpisodeError, match="shutting down"):
            await host.open()
