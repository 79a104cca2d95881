"""What the images and the compose file say: commands that there are, no root, a token by secret, a health check.

No image is built: there is no engine where these tests run.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.servers import serving

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
TOKEN = "/run/secrets/agentenv_token"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file, with its variables filled in."""
    text = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
    filled = re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: found[2] or found[1].lower(), text)
    assert "$" not in filled
    loaded: dict[str, Any] = yaml.safe_load(filled)
    return loaded


def stage(name: str) -> str:
    """The instructions of one image, those that it begins with among them."""
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL))
    return str(stages["base"] + stages[name])


def instruction(name: str, image: str) -> list[str]:
    """The list of an instruction's one JSON form in an image."""
    (written,) = re.findall(rf"^{name} (\[.*\])$", stage(image), re.MULTILINE)
    words: list[str] = json.loads(written)
    return words


def options_of(command: str) -> str:
    """What the help of a command of ours says."""
    asked = [sys.executable, "-m", "agent_env.cli.main", *command.split(), "--help"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=100, check=True).stdout


def test_the_server_s_command_is_one_of_ours() -> None:
    command = instruction("CMD", "server")[-1]
    words = shlex.split(command)
    assert words[:4] == ["exec", "agent-env", "serve", "$BUNDLE"]
    assert words[words.index("--token-file") + 1] == TOKEN
    known = options_of("serve")
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_the_trainer_s_command_is_one_of_ours(compose: dict[str, Any]) -> None:
    trainer = compose["services"]["trainer"]
    assert instruction("ENTRYPOINT", "trainer") == ["agent-env"]
    command, url, *rest = trainer["command"]
    assert (command, url) == ("train", "http://server:8000")
    assert rest[rest.index("--token-file") + 1] == TOKEN
    known = options_of("train")
    assert [word for word in rest if word.startswith("--") and word not in known] == []
    recipes = {file.stem for file in (ROOT / "src/agent_env/training/verl/recipes").glob("*.yaml")}
    assert rest[rest.index("--recipe") + 1] in recipes


def test_what_a_bundle_needs_is_installed_by_a_command_of_ours() -> None:
    assert 'agent-env env install "${BUNDLE:?' in stage("server")
    assert "--yes" in options_of("env install")


def test_no_image_runs_as_root_and_no_token_is_in_one(compose: dict[str, Any]) -> None:
    for image in ("server", "trainer"):
        assert re.findall(r"^USER (\S+)$", stage(image), re.MULTILINE) == ["10001"]
        service = compose["services"][image]
        assert service["secrets"] == ["agentenv_token"]
        assert service["cap_drop"] == ["ALL"]
        assert "environment" not in service
    assert compose["secrets"] == {"agentenv_token": {"file": "./token"}}
    assert compose["networks"]["tasks"]["internal"] is True


def test_the_compose_file_builds_what_the_dockerfile_has(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        build = service["build"]
        assert (ROOT / "docker" / build["context"] / build["dockerfile"]).is_file()
        declared = set(re.findall(r"^ARG (\w+)", stage(build["target"]), re.MULTILINE))
        assert build["target"] == name
        assert set(build["args"]) <= declared
    assert compose["services"]["trainer"]["depends_on"] == {"server": {"condition": "service_healthy"}}


def test_all_that_an_image_copies_is_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)).split()
    assert set(copied) == sent
    assert all((ROOT / name).exists() for name in sent)


def test_the_health_check_tells_a_server_that_answers_from_none(tmp_path: Path) -> None:
    (written,) = re.findall(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", stage("server"), re.MULTILINE)
    python, *rest = json.loads(written)
    assert python == "python"
    (tmp_path / "token").write_text("s3cret\n")
    with serving("inbox", "--token-file", str(tmp_path / "token")) as server:
        port = server.url.rpartition(":")[2]
        check = [sys.executable, *(word.replace(":8000/", f":{port}/") for word in rest)]
        assert subprocess.run(check, capture_output=True, timeout=60).returncode == 0
    assert subprocess.run(check, capture_output=True, timeout=60).returncode == 1
