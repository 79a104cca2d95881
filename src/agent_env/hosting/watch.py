"""Keeps worker processes within ``[limits]`` of bundle.toml: memory and processor time, each with all that it started.

The template looks at them every `EVERY` seconds and kills those that are over. Memory is what is resident, written to
and no other process's: address space that is only reserved costs nothing (Java and torch reserve a lot), nor do files
that are mapped, nor what a worker shares with the template. The kernel's own limits would not do: RLIMIT_AS counts what
is reserved, and process by process; a control group needs rights that a server seldom has. Processor time is counted
from the last request on, so that what an environment leaves running between two requests counts as well.

It reads ``/proc`` (proc(5)); on a system without one nothing is watched.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

EVERY = 0.25
"""Seconds between two looks, at least."""
SHARE = 0.1
"""The most of a processor that looking may take; where it takes long, it is done less often."""
MIB = 2**20
PROC = "/proc"
_PAGE, _TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


class Caps(msgspec.Struct, frozen=True):
    """What a worker may take: ``limits.max_memory_mb`` and ``limits.max_cpu_seconds``."""

    memory_mb: int
    cpu_seconds: float


class Requests:
    """How many requests a worker has begun, in memory that it shares with the template."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)

    def begin(self) -> None:
        """Count one more."""
        self._shared[:8] = (self.count + 1).to_bytes(8, "little")

    @property
    def count(self) -> int:
        return int.from_bytes(self._shared[:8], "little")

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.close()


@dataclass
class _Watched:
    requests: Requests
    seen: int = 0
    cpu_before: float = 0.0


@dataclass(frozen=True)
class _Process:
    parent: int
    cpu: float
    resident: int


@dataclass
class Watch:
    """Watches workers, by process id; `over` says which to kill."""

    caps: Caps
    _workers: dict[int, _Watched] = field(default_factory=dict)
    _next: float = 0.0

    def add(self, pid: int, requests: Requests) -> None:
        """Watch a worker."""
        self._workers[pid] = _Watched(requests)

    def remove(self, pid: int) -> None:
        """Watch it no longer."""
        watched = self._workers.pop(pid, None)
        if watched is not None:
            watched.requests.close()

    @property
    def wait(self) -> float | None:
        """Seconds until `over` is due; None while there is nothing to watch."""
        return max(0.0, self._next - time.monotonic()) if self._workers and os.path.isdir(PROC) else None

    def over(self) -> dict[int, str]:
        """The workers that are over a limit, if a look is due: process id to what it did, in words."""
        if self.wait != 0.0:
            return {}
        began = time.thread_time()
        found = {}
        # Workers that wait for their first request do nothing, so an idle server costs nothing.
        if any(watched.requests.count for watched in self._workers.values()):
            table = _processes()
            for pid, tree in _trees(table, self._workers).items():
                why = self._why(self._workers[pid], {member: table[member] for member in tree})
                if why:
                    found[pid] = why
        self._next = time.monotonic() + max(EVERY, (time.thread_time() - began) / SHARE)
        return found

    def _why(self, watched: _Watched, tree: Mapping[int, _Process]) -> str:
        cpu = sum(process.cpu for process in tree.values())
        if watched.seen != watched.requests.count:
            watched.seen, watched.cpu_before = watched.requests.count, cpu
        used = cpu - watched.cpu_before
        others = len(tree) - 1
        whom = f" with {others} process{'es' * (others > 1)} that it started" if others else ""
        if used > self.caps.cpu_seconds:
            limit = f"limits.max_cpu_seconds ({self.caps.cpu_seconds:g})"
            return f"took {used:.0f} s of processor time{whom}, over {limit}, and was killed"
        most = self.caps.memory_mb * MIB
        if sum(process.resident for process in tree.values()) <= most:
            return ""
        memory = 0
        # The exact look at a process takes its time: the largest first, and none more than it needs.
        for pid in sorted(tree, key=lambda pid: tree[pid].resident, reverse=True):
            memory += own_memory(pid)
            if memory > most:
                taken = f"{memory / MIB:.0f} MB{whom}"
                return f"took {taken}, over limits.max_memory_mb ({self.caps.memory_mb}), and was killed"
        return ""


def own_memory(pid: int) -> int:
    """Bytes of memory that a process has written to and shares with none; 0 once it is gone."""
    folder = Path(PROC, str(pid))
    try:
        rows = [line.split() for line in (folder / "smaps_rollup").read_text(encoding="ascii").splitlines()]
        size = {row[0]: int(row[1]) for row in rows if row[-1] == "kB"}
        dirty = size["Private_Dirty:"]
        # That also counts files that are mapped and not yet on their disk; this counts a share of what others share,
        # and old kernels do not tell it.
        unmapped = size.get("Pss_Anon:", dirty) + size.get("Pss_Shmem:", 0)
        return 1024 * (min(dirty, unmapped) + size.get("SwapPss:", 0))
    except PermissionError:
        # One that took other rights than the server's; what is not shared with files is the next best.
        try:
            _, resident, shared, *_ = (folder / "statm").read_text(encoding="ascii").split()
        except OSError:
            return 0
        return (int(resident) - int(shared)) * _PAGE
    except OSError:
        return 0


def _processes() -> dict[int, _Process]:
    """Every process of the system, zombies too: what those used counts until their parent has heard of their end."""
    found = {}
    for name in os.listdir(PROC):
        if name.isdecimal():
            try:
                with open(f"{PROC}/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            # utime, stime, and those of its children that ended and were waited for
            cpu = sum(map(int, fields[11:15])) / _TICK
            found[int(name)] = _Process(int(fields[1]), cpu, int(fields[21]) * _PAGE)
    return found


def _trees(table: Mapping[int, _Process], roots: Iterable[int]) -> dict[int, list[int]]:
    """Each of `roots` that is in `table`, with itself and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    trees = {}
    for root in roots:
        if root in table:
            tree = [root]
            for member in tree:
                tree += children.get(member, ())
            trees[root] = tree
    return trees
