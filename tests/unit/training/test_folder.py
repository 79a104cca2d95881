"""A folder that is replaced all at once, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agent_env.errors import InputError
from agent_env.training.folder import check_target, replacing


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def ours(path: Path) -> bool:
    return path.suffix == ".ours"


def test_it_is_made_with_its_parents(tmp_path):
    with replacing(tmp_path / "a" / "b", ours) as folder:
        (folder / "x").write_text("1")
    assert contents(tmp_path / "a" / "b") == {"x": "1"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_old_files_of_ours_go_and_others_stay(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o750)
    for name in ("kept.txt", "gone.ours", "replaced.txt"):
        (out / name).write_text("old")
    with replacing(out, ours) as folder:
        (folder / "replaced.txt").write_text("new")
        assert contents(out) == {"kept.txt": "old", "gone.ours": "old", "replaced.txt": "old"}
    assert contents(out) == {"kept.txt": "old", "replaced.txt": "new"}
    assert out.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_leaves_everything_as_it_was(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").write_text("old")

    def breaks() -> None:
        with replacing(out, ours) as folder:
            (folder / "x").write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks()
    assert contents(out) == {"x": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


WRITER = """
    import sys, time
    from pathlib import Path
    from agent_env.training.folder import replacing

    with replacing(Path(sys.argv[1]), lambda path: True) as folder:
        for number in range(3):
            (folder / str(number)).write_text("new")
        print("written", flush=True)
        time.sleep(float(sys.argv[2]))
"""


def start_writer(out: Path, seconds: float) -> subprocess.Popen[str]:
    code = textwrap.dedent(WRITER)
    process = subprocess.Popen([sys.executable, "-c", code, str(out), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def test_a_killed_writer_leaves_the_old_files_and_the_next_one_clears_up(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for number in range(3):
        (out / str(number)).write_text("old")
    process = start_writer(out, 60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert contents(out) == {"0": "old", "1": "old", "2": "old"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.writing", "out"]
    with replacing(out, lambda path: True) as folder:
        (folder / "0").write_text("newer")
    assert contents(out) == {"0": "newer"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_whoever_looks_sees_all_old_or_all_new_files(tmp_path):
    out = tmp_path / "out"
    with replacing(out, ours) as folder:
        for number in range(3):
            (folder / str(number)).write_text("0")
    look = f"""
        import os
        while True:
            handle = os.open({str(out)!r}, os.O_RDONLY)
            seen = set()
            try:
                for name in sorted(os.listdir(handle)):
                    file = os.open(name, os.O_RDONLY, dir_fd=handle)
                    seen.add(os.read(file, 99))
                    os.close(file)
                print(seen, flush=True)
            except FileNotFoundError:
                pass  # it was replaced, and the old one deleted, while it was being looked at
            os.close(handle)
            assert len(seen) <= 1, seen
    """
    onlooker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(look)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert onlooker.stdout is not None
    assert onlooker.stdout.readline() == "{b'0'}\n"
    for round_number in range(1, 100):
        with replacing(out, ours) as folder:
            for number in range(3):
                (folder / str(number)).write_text(str(round_number))
    onlooker.send_signal(signal.SIGTERM)
    _, complaint = onlooker.communicate()
    assert complaint == ""
    assert onlooker.returncode == -signal.SIGTERM


def test_two_writers_do_not_mix(tmp_path):
    first = start_writer(tmp_path / "out", 60)
    try:
        with pytest.raises(InputError, match="another process is writing it"), replacing(tmp_path / "out", ours):
            pass
    finally:
        first.kill()
        first.communicate()


def test_what_cannot_be_replaced_is_said_before_anything_is_touched(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "nested" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "nested")
    for folder, message in [
        (tmp_path / "file", "is a file"),
        (tmp_path / "file" / "below", "cannot be made"),
        (Path("."), "is the current folder"),
        (tmp_path, "is the current folder, or around it"),
    ]:
        (problem,) = check_target(folder)
        assert message in str(problem)
    monkeypatch.chdir(tmp_path)
    (problem,) = check_target(tmp_path / "nested")
    assert "holds folders or links (inner)" in str(problem)
    assert check_target(tmp_path / "new" / "er") == []
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "bundle.toml").write_text("")
    (problem,) = check_target(tmp_path / "bundle")
    assert "is a bundle's folder" in str(problem)


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    with replacing(tmp_path / "link", ours) as folder:
        (folder / "x").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "real") == {"x": "1"}
