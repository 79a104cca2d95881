"""Many sessions of GridSim at once: our server, with and without worker processes, and OpenEnv's own, in one run.

``python benchmarks/load.py [--sessions 64,256,1024,2048] [--seconds 60] [--json FILE]``

So many clients play one episode after another without a pause: open (connect and reset), two calls, the call that ends
the turn and is graded, close. Latencies are therefore those of a server that has more to do than it can: with N clients
and R operations a second, N / R. Servers take turns. Without worker processes a session has a thread to itself;
OpenEnv's environment, async and plain, runs in its event loop. With worker processes our server has `WORKERS` sessions
at once and the others wait for one, which is part of `open`; who is told CAPACITY_REACHED, since too many wait or for
too long, comes again, as our own client does. Who still waits at the end of a turn is counted, and is no failure.

An operation fails that has another answer than it should, none within `DEADLINE`, or a connection that breaks. Memory
is the most that the server and all its processes had, what they share counted once; processor time is theirs, and
hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from server import HERE, Client, Server, frame, run, running

from agent_env.bundle import BUILT_IN

WORKERS = 64
"""Sessions at once where each has a process: the default of ``--max-sessions``."""
ROUNDS = 4
"""In which servers are measured in turns, so that what else the machine does falls on all alike."""
DEADLINE = 60.0
"""Seconds for one operation."""
DAYS = 20
"""Different tasks that are played."""
OPERATIONS = ("open", "call", "close")


def call(tool: str, **arguments: str) -> bytes:
    """The frame of a tool call."""
    return frame({"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}})


RESETS = [frame({"type": "reset", "data": {"split": "train", "index": index}}) for index in range(DAYS)]
CALLS = {
    call("forecast"): b"price (ct/kWh)",
    call("submit_schedule", plan="C" * 3 + "H" * 18 + "D" * 3): b"cost: ",
    call("end_turn", response="done"): b'"grade":',
}
"""Each call of an episode, with what must be in its answer."""


class Failed(Exception):
    """An operation that did not do what it should."""


@dataclass
class Measured:
    """What the clients saw, and what the server took.

    Args:
        seconds: of each operation that succeeded.
        failed: operations that did not, by what went wrong.
        told: how often a newcomer was told CAPACITY_REACHED, and came again.
        waiting: for a session at the end.
        took: seconds that all of it took.
        processor: seconds of the server.
        memory: most MB.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    told: int = 0
    waiting: int = 0
    took: float = 0.0
    processor: float = 0.0
    memory: float = 0.0

    @property
    def done(self) -> int:
        """Operations that succeeded."""
        return sum(map(len, self.seconds.values()))

    def figures(self) -> dict[str, Any]:
        """All of it in numbers."""
        attempted = self.done + sum(self.failed.values())
        latencies = {
            f"{operation}_p{share}_ms": round(1e3 * float(np.percentile(self.seconds[operation] or [np.nan], share)), 1)
            for operation in OPERATIONS
            for share in (50, 99)
        }
        return {
            "success": self.done / max(1, attempted),
            "failed": dict(self.failed),
            "told": self.told,
            "waiting": self.waiting,
            **latencies,
            "operations_per_second": round(self.done / self.took, 1),
            "cpu_us": round(1e6 * self.processor / max(1, self.done), 1),
            "memory_mb": round(self.memory),
        }


async def session(port: int, measured: Measured, index: int, until: float) -> None:
    """One episode, if it can be opened until then. Raises Failed."""
    client: Client | None = None
    try:
        began = time.perf_counter()
        while (client := await admitted(port, RESETS[index % DAYS], until)) is None:
            if time.perf_counter() > until:
                measured.waiting += 1
                return
            measured.told += 1
            await asyncio.sleep(random.uniform(0.1, 1.0))
        measured.seconds["open"].append(time.perf_counter() - began)
        for request, wanted in CALLS.items():
            began = time.perf_counter()
            answer = await asyncio.wait_for(client.ask(request), DEADLINE)
            if wanted not in answer:
                raise Failed(f"call: {answer[:100]!r}")
            measured.seconds["call"].append(time.perf_counter() - began)
        began = time.perf_counter()
        await asyncio.wait_for(client.close(), DEADLINE)
        measured.seconds["close"].append(time.perf_counter() - began)
    except (OSError, EOFError, TimeoutError, AssertionError) as error:
        raise Failed(f"{type(error).__name__}") from error
    finally:
        if client is not None:
            client.drop()


async def admitted(port: int, reset: bytes, until: float) -> Client | None:
    """A session that was reset; None if the server has no place for it, or not yet when it is over."""
    client = await asyncio.wait_for(Client.connect(port), DEADLINE)
    patience = min(DEADLINE, max(1.0, until + 5.0 - time.perf_counter()))
    answer = b"CAPACITY_REACHED"
    try:
        answer = await asyncio.wait_for(client.ask(reset), patience)
        if b'"prompt":"Plan ' in answer:
            return client
    except TimeoutError:
        if patience == DEADLINE:
            raise
    finally:
        if b'"prompt":"Plan ' not in answer:
            client.drop()
    if b"CAPACITY_REACHED" not in answer:
        raise Failed(f"open: {answer[:100]!r}")
    return None


async def play(port: int, measured: Measured, number: int, until: float) -> None:
    """One client's episodes."""
    index = number
    while time.perf_counter() < until:
        try:
            await session(port, measured, index, until)
        except Failed as failure:
            measured.failed[str(failure)] += 1
            await asyncio.sleep(0.1)
        index += 1


async def measure(server: Server, sessions: int, seconds: float, measured: Measured) -> None:
    """Play with so many clients at once for so long."""
    watching = asyncio.create_task(watch(server, measured))
    spent, began = processor_seconds(server), time.perf_counter()
    await asyncio.gather(*(play(server.port, measured, n, began + seconds) for n in range(sessions)))
    measured.took += time.perf_counter() - began
    measured.processor += processor_seconds(server) - spent
    watching.cancel()


async def watch(server: Server, measured: Measured) -> None:
    """Look at the server's memory now and then."""
    while True:
        measured.memory = max(measured.memory, await asyncio.to_thread(memory, server))
        await asyncio.sleep(2.0)


def tree(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    top = psutil.Process(server.process.pid)
    return [top, *top.children(recursive=True)]


def memory(server: Server) -> float:
    """MB of all processes of a server, what they share counted once."""
    total = 0
    for process in tree(server):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def processor_seconds(server: Server) -> float:
    """Of all processes of a server, and of those that have ended."""
    total = 0.0
    for process in tree(server):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


@contextmanager
def servers(sessions: int) -> Iterator[list[Server]]:
    """The servers that are compared, OpenEnv's first, none of them started."""
    with tempfile.TemporaryDirectory() as folder:
        forked = Path(folder) / "gridsim"
        shutil.copytree(BUILT_IN / "gridsim", forked, ignore=shutil.ignore_patterns("__pycache__"))
        manifest = (forked / "bundle.toml").read_text()
        (forked / "bundle.toml").write_text(
            manifest.replace('mode = "threads"', f'mode = "processes"\nworkers = {WORKERS}')
        )
        serve = [sys.executable, "-m", "agent_env.cli.main", "serve", "--port", "{port}", "--max-sessions"]
        theirs = [sys.executable, str(HERE / "openenv_gridsim.py"), "{port}", str(sessions)]
        yield [
            Server("OpenEnv's create_app", theirs),
            Server("agent-env, threads", [*serve, str(sessions), "gridsim"]),
            Server("agent-env, processes", [*serve, str(min(sessions, WORKERS)), str(forked)]),
        ]


def shown(sessions: int, name: str, of: dict[str, Any]) -> str:
    """A row of the table."""
    pairs = [f"{of[f'{operation}_p50_ms']:,.0f} / {of[f'{operation}_p99_ms']:,.0f}" for operation in OPERATIONS]
    success = "all" if of["success"] == 1 else f"{100 * of['success']:.2f}%"
    rest = [f"{of['operations_per_second']:,.0f}", f"{of['cpu_us']:,.0f}", f"{of['memory_mb']:,}"]
    return f"| {sessions:,} | {name} | {success} | {' | '.join(pairs + rest)} |"


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Ratios of two servers, each above 1 where ours is the better one."""
    better = {"operations a second": ours["operations_per_second"] / theirs["operations_per_second"]}
    for key in ("call_p50_ms", "call_p99_ms", "cpu_us", "memory_mb"):
        better[key.removesuffix("_ms").replace("_", " ")] = theirs[key] / ours[key]
    return ", ".join(f"{name} {ratio:.2f}" for name, ratio in better.items())


HEAD = """\
| sessions | server | success | open, ms | call, ms | close, ms | operations a second | µs of processor time each | MB |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Measure, print, and perhaps write the JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sessions", default="64,256,1024,2048", help="how many at once, with commas between")
    options.add_argument("--seconds", type=float, default=60.0, help="for each server at each number of sessions")
    options.add_argument("--json", type=Path, help="a file for the numbers")
    chosen = options.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65536)), hard))
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    }
    print(f"{report['machine']}; p50 / p99\n\n{HEAD}", flush=True)
    ratios = []
    for sessions in map(int, chosen.sessions.split(",")):
        measured: dict[str, dict[str, Any]] = {}
        with servers(sessions) as every:
            for name, figures in figures_of(every, sessions, chosen.seconds).items():
                measured[name] = figures
                print(shown(sessions, name, figures), flush=True)
        theirs, *ours = measured
        ratios += [f"{sessions:,}: {name} / {theirs}: {compared(measured[name], measured[theirs])}" for name in ours]
        report[str(sessions)] = measured
    print("\n" + "\n".join(ratios))
    for sessions, measured in report.items():
        for name, of in measured.items() if isinstance(measured, dict) else ():
            if of["failed"] or of["told"] or of["waiting"]:
                said = f"{of['told']} times told CAPACITY_REACHED, {of['waiting']} waiting at the end"
                print(f"{int(sessions):,}: {name}: {said}, failed: {of['failed'] or 'none'}")
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")


def figures_of(every: list[Server], sessions: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Start servers, measure them in turns, stop them."""
    made = {server.name: Measured() for server in every}
    with running(every):
        for server in every:
            run(measure(server, min(sessions, 16), min(2.0, seconds), Measured()))  # what is made once
        for _ in range(ROUNDS):
            for server in every:
                run(measure(server, sessions, seconds / ROUNDS, made[server.name]))
    return {name: measured.figures() for name, measured in made.items()}


if __name__ == "__main__":
    main()
