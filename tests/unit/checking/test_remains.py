import asyncio
import subprocess
import sys
import threading

import pytest

from agent_env.checking.remains import MARK, growth, marked, remains


async def test_what_grew_is_named(tmp_path):
    before = remains()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left-over")
    thread.start()
    task = asyncio.ensure_future(asyncio.sleep(600))
    with (tmp_path / "file").open("w"):
        left = await growth(before, settle=0.0)
    stop.set()
    thread.join()
    task.cancel()
    assert left == {"threads": ["left-over"], "asyncio tasks": ["sleep"], "open files": [str(tmp_path / "file")]}


async def test_what_goes_in_time_did_not_grow():
    before = remains()
    stop = threading.Event()
    threading.Thread(target=stop.wait).start()
    asyncio.get_running_loop().call_later(0.1, stop.set)
    assert await growth(before, settle=60.0) == {}


async def test_another_in_the_place_of_one_is_no_growth(tmp_path):
    first = (tmp_path / "first").open("w")
    before = remains()
    first.close()
    with (tmp_path / "second").open("w"):
        assert await growth(before, settle=0.0) == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_marked_processes_are_found_also_when_they_left_their_parent(tmp_path):
    script = (
        "import subprocess; "
        "print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    )
    started = subprocess.run([sys.executable, "-c", script], env={MARK: "a-mark"}, stdout=subprocess.PIPE, check=True)
    pid = started.stdout.decode().strip()
    try:
        assert marked("a-mark") == {pid: "sleep 600"}
        assert marked("a-mar") == {}
    finally:
        subprocess.run(["kill", pid], check=True)
