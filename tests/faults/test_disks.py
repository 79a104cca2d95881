"""Full disks, read-only ones, and writers that are killed: the old files or the whole new ones."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent_env.training.traces import read_traces
from support.disks import on_small_disk
from support.faults import Fault
from support.servers import serving

FILL_UP = """
import errno, json, os, sys
from pathlib import Path
from agent_env.training.traces import Trace, TraceWriter, read_traces

filler = Path("filler")
filler.write_bytes(b"x" * (64 << 10))
writer, written, failed = TraceWriter("traces"), 0, 0
while failed < 2:
    try:
        writer.write(Trace("e", "train", written, "t", "ok", 1, messages=({"role": "user", "content": "x" * 9999},)))
        written += 1
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        failed += 1
filler.unlink()
writer.write(Trace("e", "train", written, "t", "ok", 1))
read = read_traces("traces")
print(json.dumps([written, [trace.index for trace in read], len(read.left_out)]))
"""


def test_a_full_disk_costs_the_traces_that_it_had_no_room_for(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "disk full while traces are written"
    fault.injected = "a file system of 256 KB, filled by traces of 10 KB, then room again"
    done = on_small_disk(tmp_path / "disk", "256k", 'exec "$1" -c "$2"', sys.executable, FILL_UP)
    assert done.returncode == 0, done.stderr
    written, read, torn = json.loads(done.stdout)
    assert written > 5
    assert read == list(range(written + 1))
    fault.seen = f"all {written} before and the one after are read; {torn} torn lines left out and said"
    fault.lost = "the traces that had no room"


WRITE_THRICE = """
write() { "$1" -m agent_env.training.verl "$2" out; echo "status $?"; sha256sum out/* | sha256sum; ls -A; }
write "$1" "$2"
dd if=/dev/zero of=filler bs=1k 2>/dev/null
write "$1" "$2"
rm filler
mount -o remount,ro "$0"
write "$1" "$2"
"""


def test_a_writer_without_room_leaves_the_old_rows(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "disk full, then read-only, while the writer writes"
    fault.injected = "a file system of 1 MB with the rows of a run: filled up, then mounted read-only"
    with serving("inbox") as server:
        done = on_small_disk(tmp_path / "disk", "1m", WRITE_THRICE, sys.executable, server.url)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("wrote ")]
    (first, digest, *there), rest = lines[:3], lines[3:]
    assert (first, there) == ("status 0", ["out"])
    assert rest == ["status 2", digest, "filler", "out", "status 2", digest, "out"]
    errors = [line for line in done.stderr.splitlines() if line]
    assert len(errors) == 2, errors
    assert "out: cannot be written: No space left on device" in errors[0]
    assert "cannot be made" in errors[1]
    fault.seen = (
        f"exit status 2 and one line each time ({errors[0].removeprefix('error: ')!r}); the old rows, unchanged"
    )
    fault.lost = "nothing"


KILLED = """
import sys
from pathlib import Path
from agent_env.training.folder import replacing
from agent_env.training.traces import Trace, TraceWriter

traces = TraceWriter("traces")
for generation in range(int(sys.argv[1]), 10**9):
    with replacing(Path("out"), lambda path: True) as folder:
        for number in range(4):
            (folder / str(number)).write_text(f"{generation}" * 1000)
    traces.write(Trace("e", "train", generation, "t", "ok", 1, messages=({"role": "user", "content": "x" * 9999},)))
    print(generation, flush=True)
"""
KILLS = 20


def test_writers_killed_at_any_moment_leave_whole_files(tmp_path: Path, fault: Fault) -> None:
    fault.fault = "the writer and a trace's writer killed (SIGKILL) while they write"
    fault.injected = (
        f"kill -9 at {KILLS} random moments of a process that replaces a folder and adds a trace all the time"
    )
    told, torn, dice = 0, 0, random.Random(4)
    for _ in range(KILLS):
        command = [sys.executable, "-c", KILLED, str(told + 1)]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.uniform(0.0, 0.05))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        told = max([told + 1, *map(int, rest.split())])
        (content,) = {file.read_text() for file in (tmp_path / "out").iterdir()}
        assert len(list((tmp_path / "out").iterdir())) == 4
        assert content in (f"{told}" * 1000, f"{told + 1}" * 1000)
        traces = read_traces(tmp_path / "traces")
        assert [trace.index for trace in traces if trace.index <= told] == list(range(1, told + 1))
        torn = len(traces.left_out)
        # What was written and not told of is taken for done, as by whoever reads it.
        told = max(told, *(trace.index for trace in traces))
    fault.seen = f"after each, four files of one time and all {told} traces; {torn} torn lines left out and said"
    fault.lost = "nothing that was told of as written"
