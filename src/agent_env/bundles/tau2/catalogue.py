"""What tau2-bench consists of, asked of its engine once and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from agent_env import ToolSpec
from agent_env.cache import kept
from agent_env.hosting.engine import SCRIPT
from agent_env.install.needs import venv_python

HERE = Path(__file__).parent
DOMAINS = ("airline", "retail", "telecom")
SOLO = "telecom"
MESSAGE = ToolSpec(
    "message_user",
    "Say something to the customer, and read their answer.",
    {
        "type": "object",
        "properties": {"message": {"type": "string", "pattern": "\\S", "description": "What to say."}},
        "required": ["message"],
        "additionalProperties": False,
    },
)
_TIMEOUT = 600.0


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """By domain: ``policy``, ``tools``, ``tasks``; ``solo_policy`` and ``user_tools`` of the one without a customer.

    Raises:
        RuntimeError: the engine failed.
    """
    told = (HERE / SCRIPT).read_bytes() + (HERE / "pins.txt").read_bytes()
    file = kept(f"tau2/{hashlib.sha256(told).hexdigest()[:16]}.json", _make)
    held: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return held


def _make(target: Path) -> None:
    command = [str(venv_python(HERE)), "-I", str(HERE / SCRIPT)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False)
    if ran.returncode:
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"{SCRIPT} ended with status {ran.returncode}: {''.join(last)}")
    target.write_bytes(ran.stdout)


@cache
def tools(domain: str, *, solo: bool) -> tuple[ToolSpec, ...]:
    """The tools of a domain: with a customer, the tool to talk to them; without, those of their device."""
    held = catalogue()[domain]
    described = [*held["tools"], *(held["user_tools"] if solo else [])]
    specs = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in described]
    return (*specs, *(() if solo else (MESSAGE,)))


def reference(domain: str, task: str) -> dict[str, Any]:
    """A task of the catalogue: ``id``, ``split``, ``ticket``, the ``actions`` that solve it, what is to be ``told``."""
    return next(row for row in catalogue()[domain]["tasks"] if row["id"] == task)
