"""Engines: real processes that block, crash, are killed, and that outlive nobody."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from agent_env.errors import BundleError, EpisodeError
from agent_env.hosting import engine as engines
from agent_env.hosting.engine import Engine, EngineSession, close_engines, engine_of
from support.bundles import TOML, write_bundle
from support.waiting import until

SCRIPT = """
import os
import subprocess
import sys
import time

LOADED = os.getpid()


class Episode:
    def __init__(self):
        self.said = []

    def say(self, word, times=1):
        self.said += [word] * times
        return {"said": self.said, "pid": os.getpid(), "loaded": LOADED, "path": sys.path, "given": sys.argv[1:]}

    def fail(self):
        raise ValueError("no such flight")

    def nan(self):
        return float("nan")

    def crash(self):
        os._exit(3)

    def block(self):
        started = subprocess.Popen(["sleep", "600"])
        with open("started", "w") as file:
            file.write(str(started.pid))
        while True:
            sum(range(10**9))  # holds the interpreter's lock

    def long(self):
        return "x" * 5_000_000
"""


class Kept(Engine):
    """An engine that closes the sessions that it opened."""

    def __init__(self, script: Path, *arguments: str) -> None:
        super().__init__(Path(sys.executable), script, *arguments)
        self.sessions: list[EngineSession] = []

    async def open(self) -> EngineSession:
        self.sessions.append(await super().open())
        return self.sessions[-1]

    async def end(self) -> None:
        for session in self.sessions:
            session.close()
        await asyncio.sleep(0)  # in which the loop closes what was aborted
        self.close()


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine.py").write_text(dedent(SCRIPT))
    made = Kept(tmp_path / "engine.py")
    yield made
    await made.end()


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def test_episodes_have_processes_of_their_own_off_one_that_has_loaded_the_script(engine: Engine) -> None:
    one, other = await engine.open(), await engine.open()
    assert (await one.ask("say", word="a"))["said"] == ["a"]
    assert (await other.ask("say", word="b", times=2))["said"] == ["b", "b"]
    first, second = await one.ask("say", word="c"), await other.ask("say", word="c")
    assert (first["said"], second["said"]) == (["a", "c"], ["b", "b", "c"])
    assert len({first["pid"], second["pid"], first["loaded"]}) == 3
    assert first["loaded"] == second["loaded"]
    assert not any(entry.endswith("hosting") for entry in first["path"])
    assert len(await one.ask("long")) == 5_000_000
    one.close()
    one.close()
    await until(lambda: not alive(first["pid"]))
    assert alive(second["pid"])
    with pytest.raises(EpisodeError, match="is gone"):
        await one.ask("say", word="d")


async def test_a_script_is_given_arguments(engine: Engine, tmp_path: Path) -> None:
    assert (await (await engine.open()).ask("say", word="a"))["given"] == []
    other = Kept(tmp_path / "engine.py", "a b", "--c")
    assert (await (await other.open()).ask("say", word="a"))["given"] == ["a b", "--c"]
    await other.end()


async def test_many_at_once(engine: Engine) -> None:
    async def one(number: int) -> list[str]:
        session = await engine.open()
        said = [(await session.ask("say", word=f"{number}-{word}"))["said"] for word in range(3)]
        session.close()
        return said[-1]

    said = await asyncio.gather(*(one(number) for number in range(50)))
    assert said == [[f"{number}-{word}" for word in range(3)] for number in range(50)]


async def test_what_a_method_raises_is_said_and_the_process_lives(
    engine: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    session = await engine.open()
    with pytest.raises(EpisodeError, match=r"^the engine failed in 'fail': ValueError: no such flight$"):
        await session.ask("fail")
    with pytest.raises(EpisodeError, match=r"'nan'.*not JSON compliant"):
        await session.ask("nan")
    with pytest.raises(EpisodeError, match="'nothing': AttributeError"):
        await session.ask("nothing")
    with pytest.raises(EpisodeError, match=r"'say': TypeError: .*unexpected keyword argument 'loud'"):
        await session.ask("say", loud=True)
    assert (await session.ask("say", word="a"))["said"] == ["a"]
    assert 'in fail\n    raise ValueError("no such flight")' in capfd.readouterr().err


async def test_an_answer_over_the_bound_is_not_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MAX_ANSWER", 1_000_000)
    session, other = await engine.open(), await engine.open()
    with pytest.raises(EpisodeError, match=r"announced an answer of 5000014 bytes to 'long'"):
        await session.ask("long")
    with pytest.raises(EpisodeError, match="is gone"):
        await session.ask("say", word="a")
    assert (await other.ask("say", word="b"))["said"] == ["b"]


async def test_a_process_that_ends_costs_its_own_episode_only(engine: Engine) -> None:
    one, other = await engine.open(), await engine.open()
    with pytest.raises(EpisodeError, match="the engine's process ended in 'crash'; it printed why"):
        await one.ask("crash")
    pid = (await other.ask("say", word="b"))["pid"]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EpisodeError, match="ended in 'say'"):
        await other.ask("say", word="b")
    assert (await (await engine.open()).ask("say", word="c"))["said"] == ["c"]


async def test_a_call_that_is_cancelled_ends_its_process_and_what_that_started(engine: Engine, tmp_path: Path) -> None:
    session = await engine.open()
    pid = (await session.ask("say", word="a"))["pid"]
    blocked = asyncio.create_task(session.ask("block"))
    await until((tmp_path / "started").exists)
    await until(lambda: (tmp_path / "started").read_text() != "")
    started = int((tmp_path / "started").read_text())
    blocked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await blocked
    await until(lambda: not alive(pid) and not alive(started))
    with pytest.raises(EpisodeError, match="is gone"):
        await session.ask("say", word="b")


async def test_an_engine_that_was_killed_is_started_again(engine: Engine) -> None:
    loaded = (await (await engine.open()).ask("say", word="a"))["loaded"]
    os.kill(loaded, signal.SIGKILL)
    await until(lambda: not alive(loaded))
    again = await (await engine.open()).ask("say", word="a")
    assert again["loaded"] != loaded
    engine.close()
    await until(lambda: not alive(again["loaded"]) and not alive(again["pid"]))
    assert (await (await engine.open()).ask("say", word="b"))["said"] == ["b"]


async def test_a_script_that_cannot_be_loaded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "engine.py").write_text("import no_such_engine")
    engine = Kept(tmp_path / "engine.py")
    with pytest.raises(EpisodeError, match=r"the engine's process ended in 'say'.*; it printed why"):
        await (await engine.open()).ask("say", word="a")
    assert "No module named 'no_such_engine'" in capfd.readouterr().err
    await engine.end()


async def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EpisodeError, match=r"engine.py cannot be started: .*No such file"):
        await Engine(tmp_path / "nothing", tmp_path / "engine.py").open()


async def test_no_process_outlives_one_that_was_killed(engine: Engine, tmp_path: Path) -> None:
    program = f"""
    import asyncio, os, sys
    from pathlib import Path
    from agent_env.hosting.engine import Engine

    async def main():
        session = await Engine(Path(sys.executable), Path({str(tmp_path / "engine.py")!r})).open()
        said = await session.ask("say", word="a")
        print(said["pid"], said["loaded"], flush=True)
        await session.ask("block")

    asyncio.run(main())
    """
    command = [sys.executable, "-c", dedent(program)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    with process.stdout:
        pids = [int(pid) for pid in (await asyncio.to_thread(process.stdout.readline)).split()]
    await until((tmp_path / "started").exists)
    process.kill()
    process.wait()
    await until(lambda: not any(map(alive, pids)))


def test_an_engine_of_a_bundle_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path / "cache"))
    needs = '[install]\npackages = ["numpy"]\nvenv = true\ndownload_mb = 1\nlicences = {numpy = "BSD"}\n'
    with pytest.raises(BundleError, match="agent-env env install"):
        engine_of(write_bundle(tmp_path / "counter", {"bundle.toml": TOML + needs}))
    close_engines()
