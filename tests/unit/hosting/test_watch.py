"""What processes take, seen on real ones."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_env.hosting.watch import EVERY, MIB, Caps, Requests, Watch, own_memory
from support.waiting import within

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux's /proc")


@contextlib.contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has run `code`, which ends with `ready()` and then waits."""
    ready = "import sys\ndef ready():\n    print('ready', flush=True)\n    sys.stdin.read()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", ready + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def asked(times: int = 1) -> Requests:
    requests = Requests()
    for _ in range(times):
        requests.begin()
    return requests


def test_own_memory_is_what_was_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (64 * MIB))
    reserved_and_mapped = f"""
import mmap
reserved = mmap.mmap(-1, 2**31)
file = open({str(tmp_path / "file")!r}, "rb")
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(mapped[::4096])
"""
    with running(reserved_and_mapped + "ready()") as small:
        without = own_memory(small.pid)
    with running(reserved_and_mapped + f"written = bytearray(b'x') * (96 * {MIB})\nready()") as large:
        assert own_memory(large.pid) - without == pytest.approx(96 * MIB, abs=2 * MIB)
    assert without < 32 * MIB
    assert own_memory(large.pid) == 0  # it is gone


def test_what_is_shared_with_the_parent_is_not_a_workers_own() -> None:
    code = f"""
import os, time
data = bytearray(b'x') * (128 * {MIB})
child = os.fork()
if not child:
    time.sleep(600)
print(child, flush=True)
try:
    sys.stdin.read()
finally:
    os.kill(child, 9)
    os.wait()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys\n" + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert own_memory(child) < 16 * MIB
    process.communicate()
    assert process.returncode == 0


def test_memory_counts_with_what_a_worker_started() -> None:
    child = f"b = bytearray(b'x') * (64 * {MIB}); print(flush=True); import time; time.sleep(600)"
    code = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
try:
    ready()
finally:
    child.kill()
    child.wait()
"""
    with running(code) as worker:
        watch = Watch(Caps(memory_mb=64, cpu_seconds=600.0))
        watch.add(worker.pid, asked())
        ((pid, why),) = watch.over().items()
        assert pid == worker.pid
        assert why.endswith("MB with 1 process that it started, over limits.max_memory_mb (64), and was killed")
        roomy = Watch(Caps(memory_mb=128, cpu_seconds=600.0))
        roomy.add(worker.pid, asked())
        assert roomy.over() == {}
        worker.communicate(timeout=30)  # lets it end its own child


def test_processor_time_counts_from_a_request_to_the_next() -> None:
    spins = "import time\nwhile time.process_time() < 3600:\n    pass"
    with running(f"import threading\nthreading.Thread(target=ready).start()\n{spins}") as worker:
        watch, requests = Watch(Caps(memory_mb=2048, cpu_seconds=0.5)), asked()
        watch.add(worker.pid, requests)
        for _ in range(4):  # each for less than the limit, all together for more
            assert watch.over() == {}
            time.sleep(max(0.2, watch.wait or 0.0))
            requests.begin()
        deadline = time.monotonic() + within(30)
        while not (found := watch.over()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "s of processor time, over limits.max_cpu_seconds (0.5), and was killed" in found[worker.pid]


def test_it_looks_only_so_often_and_at_no_worker_that_was_asked_nothing() -> None:
    spins = "import threading\nthreading.Thread(target=ready).start()\nwhile True:\n    pass"
    with running(spins) as worker:
        watch, requests = Watch(Caps(memory_mb=2048, cpu_seconds=0.01)), Requests()
        assert watch.wait is None
        watch.add(worker.pid, requests)
        time.sleep(0.1)
        assert watch.wait == 0.0
        assert watch.over() == {}
        assert watch.wait is not None
        assert watch.wait > EVERY / 2
        requests.begin()
        found: dict[int, str] = {}
        deadline = time.monotonic() + within(30)
        while not found:
            assert time.monotonic() < deadline
            found = watch.over()
            time.sleep(0.05)
        assert list(found) == [worker.pid]
        watch.remove(worker.pid)
        assert watch.wait is None
