"""A shared loop that author code blocks."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from agent_env.bundle import Bundle, load_bundle
from agent_env.episode import Episode
from agent_env.errors import EpisodeError
from agent_env.hosting import shared_loop
from agent_env.hosting.shared_loop import SharedLoopHost
from support.trials import write_trials
from support.waiting import until


async def started(host: SharedLoopHost, bundle: Bundle) -> Episode:
    episode = Episode(bundle, bundle.tasks("train")[0], await host.open())
    await episode.start()
    return episode


async def test_new_episodes_get_a_new_loop_while_one_is_blocked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_loop, "STUCK_AFTER", 0.4)
    log = tmp_path / "log"
    host = SharedLoopHost(load_bundle(write_trials(tmp_path, "async", log=str(log))))
    await host.start()
    try:
        bundle = host._bundle
        victim, blocker = await started(host, bundle), await started(host, bundle)
        blocked = asyncio.create_task(blocker.call("sleep", {"seconds": 4}))
        await until(lambda: "sleep" in log.read_text())
        await asyncio.sleep(1.0)
        with caplog.at_level(logging.WARNING):
            newcomer = await started(host, bundle)
        assert "blocks its event loop" in caplog.text
        assert host.loops == 2
        assert (await newcomer.call("echo", {"text": "a"})).text == "a"
        assert not blocked.done()
        # The old loop's episodes go on once it is free, and it ends when the last of them has.
        assert (await blocked).text == "awake"
        assert (await victim.call("echo", {"text": "b"})).text == "b"
        await blocker.close()
        await victim.close()
        await until(lambda: host.loops == 1)
        await newcomer.close()
    finally:
        await host.close()


async def test_loops_that_may_be_blocked_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_loop, "STUCK_AFTER", 0.2)
    monkeypatch.setattr(shared_loop, "MAX_STUCK", 2)
    log = tmp_path / "log"
    host = SharedLoopHost(load_bundle(write_trials(tmp_path, "async", log=str(log))))
    await host.start()
    try:
        calls = []
        for number in (1, 2):
            episode = await started(host, host._bundle)
            calls.append(asyncio.create_task(episode.call("sleep", {"seconds": 3})))
            await until(lambda n=number: log.read_text().count("sleep") == n)
            await asyncio.sleep(0.6)
        with pytest.raises(EpisodeError, match="event loops are blocked"):
            await host.open()
        await asyncio.gather(*calls)
    finally:
        await host.close()
