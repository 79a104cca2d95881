"""``docs/serving.md`` shows what happens: its frames are played, its requests sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.servers import Server, client, serving

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("inbox") as server:
        yield server


def shows(written: str, actual: str) -> bool:
    """Whether `actual` is what is written, with anything at all for each ``…``."""
    return re.fullmatch(".*".join(map(re.escape, written.split("…"))), actual, re.DOTALL) is not None


async def test_the_frames(server: Server) -> None:
    frames = re.findall(r"^> (.*)\n< (.*)$", PAGE, re.MULTILINE)
    assert len(frames) == 10
    async with client(server.ws) as guest:
        for sent, written in frames:
            await guest.socket.send(sent)
            actual = await guest.socket.recv()
            assert isinstance(actual, str)
            assert shows(written, actual), actual


def test_the_requests(server: Server) -> None:
    found = re.findall(r"^\$ curl -s http://127\.0\.0\.1:8765(\S+)(?: -d '(.*)')?\n(.*)$", PAGE, re.MULTILINE)
    assert len(found) == 3
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        for path, body, written in found:
            answer = http.post(path, content=body) if body else http.get(path)
            assert shows(written, answer.text), answer.text


def test_the_token() -> None:
    secret = {"AGENTENV_TOKEN": "s3cret"}
    with serving("inbox", "--token-var", "AGENTENV_TOKEN", env=secret) as server:
        found = re.findall(r"^\$ curl -s http://127\.0\.0\.1:8766(\S+)(?: -H '(.*): (.*)')?\n(.*)$", PAGE, re.MULTILINE)
        assert len(found) == 2
        for path, name, value, written in found:
            headers = {name: value} if name else None
            answer = httpx.get(server.url + path, headers=headers, trust_env=False)
            assert shows(written, answer.text), answer.text


def test_the_options_are_the_commands_own() -> None:
    from typer.main import get_command

    from agent_env.cli.main import app

    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    own = {option: parameter.default for parameter in command.params for option in parameter.opts if option[0] == "-"}
    rows = re.findall(r"^\| (`--.*?`.*?) \|", PAGE, re.MULTILINE)
    written = dict(re.findall(r"`(--[a-z-]+)(?: [A-Z]+)?`(?: \(([\d.]+)\))?", " ".join(rows)))
    assert set(written) == set(own)
    for option, default in written.items():
        if default:
            assert str(own[option]) in (default, f"{default}.0")
