"""``agent-env env`` as it is typed, with pip, wheels and environments as they are, and no network."""

import hashlib
import os
import shutil
import subprocess
import sys

import pytest

from agent_env.bundle import built_in_bundles
from support.bundles import ENV, TOML, write_bundle
from support.wheels import layered_python, write_wheel

INSTALL = """
[install]
packages = ["little-engine>=1.0,<2"]
download_mb = 5
licences = {{little-engine = "MIT", little-part = "GPL-3.0"}}
note = "Compiles for a minute."
{more}
"""


@pytest.fixture
def bundle(tmp_path):
    """A counter whose code imports an engine that is not installed."""
    return write_bundle(
        tmp_path / "counter",
        {"bundle.toml": TOML + INSTALL.format(more=""), "env.py": f"import little_engine\n{ENV}"},
    )


@pytest.fixture
def wheels(tmp_path):
    write_wheel(tmp_path / "wheels", "little_engine", "1.2", ["little-part"])
    write_wheel(tmp_path / "wheels", "little_part", "0.1")
    return tmp_path / "wheels"


@pytest.fixture(scope="module")
def empty_python(tmp_path_factory):
    return layered_python(tmp_path_factory.mktemp("layered") / "venv")


@pytest.fixture
def python(empty_python, tmp_path):
    """A Python whose environment has what this one has, and nothing that another test has put there."""
    copied = tmp_path / "venv"
    shutil.copytree(empty_python.parents[1], copied, symlinks=True)
    return copied / "bin" / "python"


def agent_env(python, tmp_path, *arguments):
    command = [python, "-m", "agent_env.cli.main", "env", *map(str, arguments)]
    environment = {**os.environ, "AGENT_ENV_HOME": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    return subprocess.run(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110
    )


def test_it_says_what_it_would_do_and_does_nothing_unasked(bundle, tmp_path):
    done = agent_env(sys.executable, tmp_path, "install", bundle)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "packages: little-engine>=1.0,<2",
        f"into {sys.prefix}, by pip (about 5 MB with all that they need)",
        "licence of little-engine: MIT",
        "licence of little-part: GPL-3.0",
        "Compiles for a minute.",
    ]
    assert done.stderr == "agent-env: --yes: is missing, and nobody is there to ask (give it to install the above)\n"


def test_it_installs_from_a_folder_and_a_second_time_changes_nothing(bundle, wheels, python, tmp_path):
    for _ in range(2):
        done = agent_env(python, tmp_path, "install", bundle, "--from", wheels, "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"counter is installed: 1 tasks; agent-env serve {bundle}"
    told = subprocess.run(
        [python, "-c", "import little_engine, little_part; print(little_engine.VERSION, little_part.VERSION)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "1.2 0.1\n"


def test_an_installed_package_keeps_its_version(bundle, tmp_path, python, wheels):
    write_wheel(tmp_path / "old", "little_part", "0.0.1")
    pip = [python, "-m", "pip", "install", "--no-index", "--find-links", tmp_path / "old", "little-part"]
    subprocess.run(pip, check=True, capture_output=True)
    (wheels / "little_engine-1.2-py3-none-any.whl").unlink()
    write_wheel(wheels, "little_engine", "1.3", ["little-part>=0.1"])
    done = agent_env(python, tmp_path, "install", bundle, "--from", wheels, "--yes")
    assert done.returncode == 1
    assert "conflict" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("failed with status 1; its output above says why")
    assert subprocess.run([python, "-c", "import little_engine"], capture_output=True).returncode == 1


def test_wheels_that_there_are_not(bundle, tmp_path):
    done = agent_env(sys.executable, tmp_path, "install", bundle, "--from", "nowhere", "--yes")
    fix = "(a folder that `pip wheel -w FOLDER …` filled, or an archive of one)"
    assert (done.returncode, done.stderr) == (2, f"agent-env: --from: there is no nowhere {fix}\n")


def pinned(bundle, wheels, digest):
    more = 'venv = true\npins = "pins.txt"'
    (bundle / "bundle.toml").write_text(TOML + INSTALL.format(more=more))
    (bundle / "env.py").write_text(ENV)
    right = hashlib.sha256((wheels / "little_part-0.1-py3-none-any.whl").read_bytes()).hexdigest()
    (bundle / "pins.txt").write_text(
        f"little-engine==1.2 --hash=sha256:{digest}\nlittle-part==0.1 --hash=sha256:{right}\n"
    )


def test_a_venv_of_its_own_by_pinned_hashes(bundle, wheels, tmp_path):
    right = hashlib.sha256((wheels / "little_engine-1.2-py3-none-any.whl").read_bytes()).hexdigest()
    pinned(bundle, wheels, right)
    before = agent_env(sys.executable, tmp_path, "install", bundle, "--from", wheels)
    assert f"into a venv of its own, {tmp_path}/cache/envs/counter, from {wheels}" in before.stdout
    done = agent_env(sys.executable, tmp_path, "install", bundle, "--from", wheels, "--yes")
    assert done.returncode == 0, done.stderr
    python = tmp_path / "cache" / "envs" / "counter" / "bin" / "python"
    subprocess.run([python, "-c", "import little_engine, little_part"], check=True)
    made = python.lstat().st_mtime_ns
    again = agent_env(sys.executable, tmp_path, "install", bundle)
    assert (again.returncode, python.lstat().st_mtime_ns) == (0, made)


def test_a_script_of_the_bundle_sets_the_venv_up(bundle, wheels, tmp_path):
    more = 'venv = true\nsetup = "unpack.py"'
    (bundle / "bundle.toml").write_text(TOML + INSTALL.format(more=more))
    (bundle / "env.py").write_text(ENV)
    venv = tmp_path / "cache" / "envs" / "counter"
    unpack = "import sys, little_engine\nopen(sys.prefix + '/unpacked', 'w').write(little_engine.VERSION)\n"
    for script, status in (("import nothing_of_the_kind\n", 1), (unpack, 0)):
        (bundle / "unpack.py").write_text(script)
        done = agent_env(sys.executable, tmp_path, "install", bundle, "--from", wheels, "--yes")
        assert done.returncode == status, done.stderr
        assert venv.exists() == (status == 0)
    assert (venv / "unpacked").read_text() == "1.2"
    # Another script asks for another venv.
    (bundle / "unpack.py").write_text(unpack + "\n")
    assert agent_env(sys.executable, tmp_path, "install", bundle).returncode == 2


def test_a_wrong_hash_leaves_nothing(bundle, wheels, tmp_path):
    pinned(bundle, wheels, "0" * 64)
    done = agent_env(sys.executable, tmp_path, "install", bundle, "--from", wheels, "--yes")
    assert done.returncode == 1
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert list((tmp_path / "cache" / "envs").iterdir()) == []


def test_every_built_in_bundle_is_listed_with_its_state_and_its_data(tmp_path):
    done = agent_env(sys.executable, tmp_path, "list")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert sorted(lines) == built_in_bundles()
    assert lines["gridsim"].split("  ")[0] == "nothing to install"
    assert lines["gridsim"].split()[-2:] == ["own", "data"]


def test_a_bundle_that_needs_nothing(tmp_path):
    done = agent_env(sys.executable, tmp_path, "install", "gridsim")
    assert (done.returncode, done.stdout) == (0, "gridsim has nothing to install\n")
