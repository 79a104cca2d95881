"""``agent-env serve`` as a user runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agent_env.cli.main import main
from support.servers import serving
from support.trials import write_trials

SECRET = "t0ken-in-no-log"


def serve(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, which comes by itself."""
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, **(env or {})}, check=False
    )


def refused(*arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command prints to stderr for input it refuses, in this process; it must exit with status 2."""
    monkeypatch.setattr(sys, "argv", ["agent-env", "serve", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    return errors


def test_it_prints_one_line_when_it_answers_with_the_port_it_chose(tmp_path: Path) -> None:
    with serving(write_trials(tmp_path)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert httpx.get(server.url + "/health", trust_env=False).json() == {"status": "healthy"}
        assert httpx.get(server.url + "/metadata", trust_env=False).json()["name"] == "trials"
        assert server.stop(signal.SIGTERM) == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
        assert server.log == []


def test_a_built_in_bundle_goes_by_its_name() -> None:
    with serving("inbox") as server:
        assert httpx.get(server.url + "/list_environments", trust_env=False).json() == ["inbox"]


def test_a_port_in_use_is_one_message_and_status_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = serve(str(write_trials(tmp_path)), "--port", port)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip() == (
        f"agent-env: 127.0.0.1:{port} is in use by another server: choose another --port, or 0 for a free one"
    )


def test_a_folder_that_is_no_bundle_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "bundle.toml" in refused(str(tmp_path), capsys=capsys, monkeypatch=monkeypatch)


@pytest.mark.parametrize(("value", "words"), [(None, "is not set"), ("", "is empty"), ("a b", "visible ASCII")])
def test_a_token_variable_that_holds_no_token_is_status_2(
    tmp_path: Path,
    value: str | None,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if value is not None:
        monkeypatch.setenv("TOKEN_OF_TEST", value)
    options = ["--port", "0", "--token-var", "TOKEN_OF_TEST"]
    assert words in refused(str(write_trials(tmp_path)), *options, capsys=capsys, monkeypatch=monkeypatch)


@pytest.mark.parametrize("option", [("--port", "70000"), ("--max-sessions", "0"), ("--peer-timeout", "0")])
def test_an_impossible_option_is_status_2(
    tmp_path: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = refused(str(write_trials(tmp_path)), *option, capsys=capsys, monkeypatch=monkeypatch)
    assert option[0] in errors


def test_workers_that_cannot_load_the_bundle_are_one_message(tmp_path: Path) -> None:
    folder = write_trials(tmp_path, "processes")
    # Loads here, and not in a process whose parent is this command.
    (folder / "env.py").write_text(
        "import os, sys\nif 'template' in ' '.join(sys.orig_argv):\n    raise RuntimeError('not here')\n"
        + (folder / "env.py").read_text()
    )
    done = serve(str(folder), "--port", "0")
    assert done.returncode == 2
    assert "a worker process cannot load the bundle" in done.stderr
    assert "not here" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_token_is_asked_for_and_appears_nowhere(tmp_path: Path) -> None:
    env = {"TOKEN_OF_TEST": SECRET}
    with serving(write_trials(tmp_path), "--token-var", "TOKEN_OF_TEST", env=env) as server:
        bearer = {"Authorization": f"Bearer {SECRET}"}
        assert httpx.get(server.url + "/metadata", trust_env=False).status_code == 401
        assert httpx.get(server.url + "/metadata", trust_env=False, headers=bearer).status_code == 200
        assert httpx.get(server.url + "/health", trust_env=False).status_code == 200
        server.stop()
        assert SECRET not in "".join(server.log)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1", "fe80::1%lo"])
def test_an_open_server_that_others_reach_is_refused(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = refused(str(tmp_path), "--host", host, capsys=capsys, monkeypatch=monkeypatch)
    assert f"--host: whoever reaches {host} could run environments on this machine" in errors
    assert "--token-var NAME or --token-file PATH; --insecure" in errors
    assert "bundle.toml" in errors  # all problems at once


def test_a_host_that_is_not_known_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = refused(str(write_trials(tmp_path)), "--host", "no.such.invalid", capsys=capsys, monkeypatch=monkeypatch)
    assert "--host: 'no.such.invalid' is not known here" in errors


@pytest.mark.parametrize("options", [["--insecure"], ["--token-var", "TOKEN_OF_TEST"]])
def test_what_others_reach_is_served_with_a_token_or_on_demand(tmp_path: Path, options: list[str]) -> None:
    with serving(write_trials(tmp_path), "--host", "0.0.0.0", *options, env={"TOKEN_OF_TEST": SECRET}) as server:
        assert server.url.startswith("http://0.0.0.0:")
        answer = httpx.get(server.url.replace("0.0.0.0", "127.0.0.1") + "/metadata", trust_env=False)
        assert answer.status_code == (200 if options == ["--insecure"] else 401)


def test_the_token_is_in_a_variable_or_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, missing = str(write_trials(tmp_path)), str(tmp_path / "none")
    both = refused(
        folder, "--token-var", "TOKEN_OF_TEST", "--token-file", missing, capsys=capsys, monkeypatch=monkeypatch
    )
    assert "--token-file: a token is in a variable or in a file, not in both" in both
    none = refused(folder, "--token-file", missing, capsys=capsys, monkeypatch=monkeypatch)
    assert f"file {missing}: cannot be read" in none
