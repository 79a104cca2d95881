"""Threads that block, return late, and never return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_env.bundle import Bundle, load_bundle
from agent_env.episode import Episode
from agent_env.errors import EpisodeError
from agent_env.hosting import threads
from agent_env.hosting.threads import ThreadHost
from support.trials import write_trials
from support.waiting import until


@contextlib.asynccontextmanager
async def hosting(folder: Path, capacity: int) -> AsyncIterator[tuple[ThreadHost, Bundle]]:
    host = ThreadHost(load_bundle(folder), capacity)
    try:
        yield host, host._bundle
    finally:
        await host.close()


async def started(host: ThreadHost, bundle: Bundle) -> Episode:
    episode = Episode(bundle, bundle.tasks("train")[0], await host.open())
    await episode.start()
    return episode


async def test_an_episode_has_one_thread_from_reset_to_close_and_threads_are_used_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hosting(write_trials(tmp_path, log=str(log)), 4) as (host, bundle):
        for _ in range(3):
            episode = await started(host, bundle)
            await episode.call("nap", {"seconds": 0})
            await episode.close()
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [line[0] for line in lines] == ["reset", "nap", "close"] * 3
    assert len({line[2] for line in lines}) == 1


async def test_threads_that_do_not_return_are_given_up_counted_and_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.1)
    log = tmp_path / "log"
    async with hosting(write_trials(tmp_path, log=str(log)), capacity=1) as (host, bundle):
        for number in (1, 2):
            episode = await started(host, bundle)
            call = asyncio.create_task(episode.call("sleep", {"seconds": 3}))
            await until(lambda n=number: log.read_text().count("sleep") == n)
            call.cancel()
            await asyncio.wait([call])
            closing = asyncio.create_task(episode.close())
            await asyncio.sleep(0)
            assert host.given_up == number
            closing.cancel()
        with pytest.raises(EpisodeError, match=r'2 threads are still in code of .* hosting\.mode = "processes"'):
            await host.open()
        await until(lambda: len(caplog.records) == 2)
        assert "thread trials-1 is still in code" in caplog.text
        assert "thread trials-2 is still in code" in caplog.text
        assert "2 such threads, 2 threads at most" in caplog.text
        # They return after all, and are used again.
        await until(lambda: host.given_up == 0)
        assert log.read_text().count("close") == 2
        again = await started(host, bundle)
        assert (await again.call("echo", {"text": "a"})).text == "a"
        await again.close()


async def test_a_call_that_is_cancelled_tidies_up_before_the_environment_closes(tmp_path: Path) -> None:
    folder = write_trials(tmp_path, log=str(tmp_path / "log"))
    env = (folder / "env.py").read_text()
    slow = 'self.write("cancelled")\n            await asyncio.sleep(0.3)\n            self.write("tidied")'
    (folder / "env.py").write_text(env.replace('self.write("cancelled")', slow))
    async with hosting(folder, 1) as (host, bundle):
        episode = await started(host, bundle)
        call = asyncio.create_task(episode.call("nap", {"seconds": 60}))
        await until(lambda: "nap" in (tmp_path / "log").read_text())
        call.cancel()
        await asyncio.wait([call])
        await episode.close()
    lines = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == ["reset", "nap", "cancelled", "tidied", "close"]
