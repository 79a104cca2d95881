import subprocess
import sys
from pathlib import Path

import pytest

from agent_env import InputError
from agent_env.cache import home, kept


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.name.endswith(".lock"))


def test_where_it_is(monkeypatch, tmp_path):
    assert home() == tmp_path / "cache"
    monkeypatch.delenv("AGENT_ENV_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert home() == tmp_path / "xdg" / "agent-env"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home() == Path.home() / ".cache" / "agent-env"


def test_what_is_kept_is_made_once(cache):
    made = []

    def make(path):
        made.append(path)
        path.write_text("a game")

    assert kept("games/one.z8", make).read_text() == "a game"
    assert kept("games/one.z8", make) == cache / "games" / "one.z8"
    assert len(made) == 1
    assert names(cache) == ["games", "games/one.z8"]


def test_what_could_not_be_made_is_not_there(cache):
    def make(path):
        path.mkdir()
        (path / "half").write_text("of it")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        kept("games/two", make)
    assert names(cache) == ["games"]


def test_processes_that_want_the_same_thing_make_it_once(cache):
    """Each would write its own number; all end with the first one's."""
    program = """
import sys, time
from agent_env.cache import kept
def make(path):
    time.sleep(0.3)
    path.mkdir()
    (path / "by").write_text(sys.argv[1])
    print("made", flush=True)
assert len(list(kept("games/three", make).iterdir())) == 1
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(outputs) == ["", "", "", "made\n"]


def test_a_cache_that_cannot_be_written_says_where_it_is(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match=r"file/cache.*: cannot be written: Not a directory .*AGENT_ENV_HOME"):
        kept("x", lambda path: path.write_text(""))
