import shutil
import sys

import numpy
import pytest

from agent_env import InputError
from agent_env.install import pip
from support.wheels import write_wheel


@pytest.fixture
def wheel(tmp_path):
    return write_wheel(tmp_path / "wheels", "engine", "1.0")


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar"])
def test_wheels_are_taken_out_of_an_archive(wheel, tmp_path, kind):
    archive = shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path, "wheels")
    with pip.wheels_in(tmp_path / archive) as folder:
        assert [file.name for file in folder.iterdir()] == [wheel.name]
        assert folder != wheel.parent
    assert not folder.exists()


@pytest.mark.parametrize("given", ["wheels", "wheels/engine-1.0-py3-none-any.whl"])
def test_a_folder_of_wheels_and_one_of_them_are_used_where_they_are(wheel, tmp_path, given):
    with pip.wheels_in(tmp_path / given) as folder:
        assert folder == wheel.parent


@pytest.mark.parametrize(
    ("given", "what"),
    [("empty", "holds no wheel"), ("text", "is no archive of wheels: "), ("nothing", "there is no ")],
)
def test_what_holds_no_wheels_is_refused(tmp_path, given, what):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(InputError, match=rf"--from: .*{what}"), pip.wheels_in(tmp_path / given):
        pass


def test_every_installed_package_is_held_but_those_that_are_asked_for():
    with pip.nothing_changed(["PyTest>=8", "nowhere"]) as file:
        lines = file.read_text().splitlines()
    names = [line.split("==")[0].lower() for line in lines]
    assert "pytest" not in names
    assert f"numpy=={numpy.__version__}" in lines
    assert len(names) == len(set(names)) > 20


def test_a_command_that_fails_says_which():
    with pytest.raises(pip.InstallFailed, match=r"-c raise SystemExit\(3\)` failed with status 3"):
        pip.run([sys.executable, "-c", "raise SystemExit(3)"])
