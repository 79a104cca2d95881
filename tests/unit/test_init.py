"""``import agent_env`` is quick, light, and offers what an author needs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import agent_env

ROOT = Path(agent_env.__file__).parents[2]


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout


def test_everything_offered_is_there():
    for name in agent_env.__all__:
        assert getattr(agent_env, name).__name__.split(".")[-1] == name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = agent_env.nothing


def test_it_takes_less_than_300_ms():
    script = "import time; t = time.process_time(); import agent_env; print(time.process_time() - t)"
    assert min(float(run(script)) for _ in range(5)) < 0.3


def test_it_brings_in_nothing_heavy():
    script = "import sys; import agent_env; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(run(script).split())
    heavy = (
        "numpy scipy pydantic starlette uvicorn httpx websockets torch verl ray transformers pyarrow jinja2 rich typer"
    )
    assert loaded.isdisjoint(heavy.split())


def test_loading_a_bundle_and_playing_needs_no_server_and_no_trainer():
    script = """
import sys
import agent_env, agent_env.hosting.local, agent_env.demonstrator
agent_env.load_bundle("inbox")
print(*sorted({name.split('.')[0] for name in sys.modules}))
"""
    loaded = set(run(script).split())
    trainers = "numpy scipy starlette uvicorn httpx websockets torch verl ray transformers pyarrow"
    assert loaded.isdisjoint(trainers.split())


def test_a_wheel_holds_every_file_of_the_bundles(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path, ROOT]
    subprocess.run(command, check=True, timeout=110, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "agent_env"
    wanted = {
        str(file.relative_to(package.parent))
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted <= held
    assert {"agent_env/py.typed", "agent_env/bundles/inbox/bundle.toml"} <= wanted
