"""Every command reports all arguments that it cannot read, in lines, with exit status 2."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import version

import pytest


def test_the_version_is_that_of_the_package():
    done = subprocess.run([sys.executable, "-m", "agent_env.cli.main", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"agent-env {version('agentenv-rl')}\n")


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (["serve", "--port", "99999", "--max-sessions", "0"], ["BUNDLE", "--port", "--max-sessions"]),
        (["train", "--steps", "ten", "--seed", "one"], ["BUNDLE_OR_URL", "--seed", "--steps"]),
        (["eval", "inbox", "--n", "0", "--temperature", "-1"], ["MODEL", "--temperature", "--n"]),
        (["warm-start", "inbox", "--error-rate", "2", "--steps", "0"], ["OUT", "--error-rate", "--steps"]),
        (["check"], ["BUNDLE"]),
        (["new"], ["PATH"]),
    ],
    ids=lambda value: value[0],
)
def test_all_that_cannot_be_read_is_a_line_each(arguments, places, tmp_path):
    command = [sys.executable, "-m", "agent_env.cli.main", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(":")[0] for line in done.stderr.removeprefix("agent-env: ").splitlines()] == places
    assert list(tmp_path.iterdir()) == []


def test_what_was_given_and_where_to_look_is_said(tmp_path):
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", "inbox", "--port", "80a"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.stderr.startswith("agent-env: --port: ")
    assert done.stderr.endswith(", got '80a' (see python -m agent_env.cli.main serve --help)\n")


def test_a_run_without_a_name_and_all_else_wrong_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    options = ["--steps", "0", "--seed", "-1", "--recipe", "x", "--profile", "y", "--token-var", "NO_SUCH_TOKEN"]
    command = [sys.executable, "-m", "agent_env.cli.main", "train", "nope", "what", "--dry-run", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.split(":")[0] for line in done.stderr.removeprefix("agent-env: ").splitlines()] == [
        "--run",
        "--recipe",
        "--profile",
        "what",
        "--steps",
        "--seed",
        "environment variable NO_SUCH_TOKEN",
        "nope",
        "--model",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (
            ["eval", "inbox", "/wrong", "what", "--split", "test", "--token-var", "NO_SUCH_TOKEN"],
            ["environment variable NO_SUCH_TOKEN", "--split", "what", "MODEL '/wrong'"],
        ),
        (
            ["warm-start", "inbox", "file", "--split", "test"],
            ["file", "bundle 'inbox' has no split 'test'; its splits "],
        ),
        (["serve", "nope", "--token-var", "NO_SUCH_TOKEN"], ["environment variable NO_SUCH_TOKEN: is not set", "nope"]),
    ],
    ids=lambda value: value[0],
)
def test_what_is_named_and_cannot_be_used_is_said_at_once(arguments, places, tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "agent_env.cli.main", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.removeprefix("agent-env: ").splitlines()
    assert [line[: len(place)] for line, place in zip(lines, places, strict=True)] == places
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_warm_start_that_is_stopped_leaves_nothing(tmp_path, number):
    command = [sys.executable, "-m", "agent_env.cli.main", "warm-start", "inbox", "model"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("demonstrating: ")
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stderr.read().splitlines()[-1] == "agent-env: stopped: model is as it was"
    assert list(tmp_path.iterdir()) == []
