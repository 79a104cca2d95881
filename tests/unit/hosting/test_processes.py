"""Worker processes that crash, hang and are killed for real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from agent_env.bundle import Bundle, load_bundle
from agent_env.episode import Episode
from agent_env.errors import EpisodeError
from agent_env.hosting.processes import ProcessHost
from support.trials import write_trials
from support.waiting import until, within


@contextlib.asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[tuple[ProcessHost, Bundle]]:
    bundle = load_bundle(folder)
    host = ProcessHost(bundle)
    try:
        await host.start()
        yield host, bundle
    finally:
        await host.close()


async def started(host: ProcessHost, bundle: Bundle) -> Episode:
    episode = Episode(bundle, bundle.tasks("train")[0], await host.open())
    await episode.start()
    return episode


async def pid_of(episode: Episode) -> int:
    """The worker's process id."""
    return int((await episode.call("where", {})).data["pid"])


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def template() -> psutil.Process:
    """The process that workers are forked off."""
    (found,) = [p for p in psutil.Process().children() if "agent_env.hosting.template" in p.cmdline()]
    return found


async def test_a_worker_that_ends_or_is_killed_costs_its_own_episode_only(tmp_path: Path) -> None:
    async with hosting(write_trials(tmp_path)) as (host, bundle):
        bystander, leaver, victim = [await started(host, bundle) for _ in range(3)]
        with pytest.raises(EpisodeError, match="ended by itself with status 3, in tool 'leave'"):
            await leaver.call("leave", {"status": 3})
        pid = await pid_of(victim)
        call = asyncio.create_task(victim.call("sleep", {"seconds": 60}))
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EpisodeError, match=r"was killed by SIGKILL \(out of memory, perhaps\), in tool 'sleep'"):
            await call
        assert (await bystander.call("echo", {"text": "unhurt"})).text == "unhurt"
        for episode in (bystander, leaver, victim):
            await episode.close()


@pytest.mark.parametrize("tool", ["sleep", "spin"])
async def test_a_call_past_its_deadline_ends_with_its_worker_killed(tmp_path: Path, tool: str) -> None:
    async with hosting(write_trials(tmp_path, limit=5)) as (host, bundle):
        episode = await started(host, bundle)
        pid = await pid_of(episode)
        began = time.monotonic()
        with pytest.raises(EpisodeError, match="call_timeout"):
            await episode.call(tool, {"seconds": 60} if tool == "sleep" else {})
        assert time.monotonic() - began < within(12)
        await until(lambda: not is_alive(pid))
        await episode.close()


async def test_what_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    """Also in a session of its own, and with its parent gone, as daemons are."""
    folder = write_trials(tmp_path)
    env = (folder / "env.py").read_text()
    how = "['sh', '-c', 'sleep 600 >/dev/null & echo $!'], stdout=subprocess.PIPE, start_new_session=True"
    orphan = f"int(subprocess.run({how}).stdout)"
    (folder / "env.py").write_text(
        env.replace('subprocess.Popen(["sleep", "600"], start_new_session=True).pid', orphan)
    )
    async with hosting(folder) as (host, bundle):
        for end in ("close", "leave"):
            episode = await started(host, bundle)
            child = int((await episode.call("child", {})).text)
            assert is_alive(child)
            if end == "leave":
                with pytest.raises(EpisodeError):
                    await episode.call("leave", {"status": 0})
            await episode.close()
            await until(lambda pid=child: not is_alive(pid))


async def test_what_a_bundle_starts_when_it_is_loaded_lives_as_long_as_the_template(tmp_path: Path) -> None:
    folder = write_trials(tmp_path, workers=1)
    (folder / "shared.py").write_text("import subprocess\nPID = subprocess.Popen(['sleep', '600']).pid\n")
    (folder / "env.py").write_text(
        (folder / "env.py").read_text()
        + '\n    @tool\n    def shared(self) -> int:\n        """The shared process."""\n'
        + "        from . import shared\n        return shared.PID\n"
    )
    # Imported in the template alone: here it would be this process's child.
    eager = "import sys\nif 'template' in ' '.join(sys.orig_argv):\n    from . import shared\nfrom .env import Trials\n"
    (folder / "eager.py").write_text(eager)
    manifest = (folder / "bundle.toml").read_text()
    (folder / "bundle.toml").write_text(manifest.replace("env:Trials", "eager:Trials"))
    async with hosting(folder) as (host, bundle):
        pids = []
        for _ in range(3):
            episode = await started(host, bundle)
            pids.append(int((await episode.call("shared", {})).text))
            await episode.close()
            await asyncio.sleep(0.1)
        assert len(set(pids)) == 1
        assert is_alive(pids[0])
    await until(lambda: not is_alive(pids[0]))


async def test_each_episode_has_a_fresh_worker_and_none_stays(tmp_path: Path) -> None:
    async with hosting(write_trials(tmp_path, workers=2)) as (host, bundle):
        pids = []
        for _ in range(4):
            episode = await started(host, bundle)
            pids.append(await pid_of(episode))
            await episode.close()
        assert len(set(pids)) == 4
        await until(lambda: not any(map(is_alive, pids)))
        # The two that wait for the next episodes, no more.
        await until(lambda: len(template().children()) == 2)


async def test_a_worker_that_waits_is_up_before_it_is_asked_for(tmp_path: Path) -> None:
    folder = write_trials(tmp_path)
    # Half a second to load, which only the template has to spend.
    (folder / "env.py").write_text("import time\ntime.sleep(0.5)\n" + (folder / "env.py").read_text())
    async with hosting(folder) as (host, bundle):
        took = []
        for _ in range(5):
            began = time.monotonic()
            episode = await started(host, bundle)
            took.append(time.monotonic() - began)
            await episode.close()
        assert min(took) < within(0.25)


async def test_a_dead_worker_among_those_that_wait_is_passed_over(tmp_path: Path) -> None:
    async with hosting(write_trials(tmp_path, workers=2)) as (host, bundle):
        await until(lambda: len(template().children()) == 2)
        waiting = template().children()
        for process in waiting:
            process.kill()
        await until(lambda: not any(is_alive(process.pid) for process in waiting))
        await asyncio.sleep(0.05)
        episode = await started(host, bundle)
        assert (await episode.call("echo", {"text": "a"})).text == "a"
        await episode.close()


async def test_the_template_is_started_again_when_it_dies(tmp_path: Path) -> None:
    async with hosting(write_trials(tmp_path)) as (host, bundle):
        episode = await started(host, bundle)
        pid = await pid_of(episode)
        call = asyncio.create_task(episode.call("sleep", {"seconds": 60}))
        await asyncio.sleep(0.1)
        template().kill()
        with pytest.raises(EpisodeError, match="in tool 'sleep'"):
            await call
        await until(lambda: not is_alive(pid))
        await episode.close()
        again = await started(host, bundle)
        assert (await again.call("echo", {"text": "a"})).text == "a"
        await again.close()


async def test_a_bundle_that_starts_threads_is_loaded_by_each_worker_itself(tmp_path: Path) -> None:
    folder = write_trials(tmp_path)
    started_at_import = """
import threading

ticks = []
lock = threading.Lock()


def tick():
    import time

    while True:
        with lock:
            ticks.append(1)
            time.sleep(0.01)


threading.Thread(target=tick, daemon=True, name="ticker").start()
"""
    (folder / "clock.py").write_text(started_at_import)
    env = (folder / "env.py").read_text().replace("import asyncio", "from . import clock\nimport asyncio", 1)
    env += '\n    @tool\n    def ticking(self) -> bool:\n        """Tell whether the thread runs here."""\n'
    env += "        before = len(clock.ticks)\n        time.sleep(0.3)\n        return len(clock.ticks) > before\n"
    (folder / "env.py").write_text(env)
    manifest = (folder / "bundle.toml").read_text()
    (folder / "bundle.toml").write_text(manifest)
    host = ProcessHost(_bundle_without_loading_it_here(folder))
    try:
        await host.start()
        episode = await started(host, host._bundle)
        assert (await episode.call("ticking", {})).text == "true"
        await episode.close()
    finally:
        await host.close()


def _bundle_without_loading_it_here(folder: Path) -> Bundle:
    """The bundle, its threads told to leave this process alone."""
    source = (folder / "clock.py").read_text()
    (folder / "clock.py").write_text("ticks = []\n")
    bundle = load_bundle(folder)
    (folder / "clock.py").write_text(source)
    return bundle


async def test_large_messages_go_both_ways(tmp_path: Path) -> None:
    async with hosting(write_trials(tmp_path, max_answer=32 << 20)) as (host, bundle):
        episode = await started(host, bundle)
        text = "é" * (4 << 20)
        assert (await episode.call("echo", {"text": text})).text == text
        await episode.close()


async def test_a_worker_that_writes_nonsense_is_the_episodes_failure(tmp_path: Path) -> None:
    folder = write_trials(tmp_path)
    forge = '''
    @tool
    def forge(self) -> str:
        """Write to the server in the worker's name."""
        for fd in range(3, 64):
            try:
                os.write(fd, b"\\x00\\x00\\x00\\x04null")
            except OSError:
                pass
        return "done"
'''
    (folder / "env.py").write_text((folder / "env.py").read_text() + forge)
    async with hosting(folder) as (host, bundle):
        bystander = await started(host, bundle)
        episode = await started(host, bundle)
        with pytest.raises(EpisodeError, match="tool 'forge'"):
            await episode.call("forge", {})
        await episode.close()
        assert (await bystander.call("echo", {"text": "unhurt"})).text == "unhurt"
        await bystander.close()
