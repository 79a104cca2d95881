"""A bundle served by a child process, for as long as something here plays its tasks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from agent_env.errors import InputError, Problem
from agent_env.tokens import NO_TOKEN, TokenSource
from agent_env.training.verl.processes import Processes

SECONDS = 120.0
"""For the server to answer."""
PEER_TIMEOUT = 600
"""Seconds of silence after which the server takes a player for gone. The player is on this machine, so its death closes
its sockets at once; one that is silent stands still, as on a machine that is too busy, and will come back."""

_SERVING = re.compile(r"^serving .* on (http://\S+)$", re.MULTILINE)
_POLL = 0.05


def serve_bundle(
    processes: Processes, bundle: str, output: Path, *, max_sessions: int, token: TokenSource = NO_TOKEN
) -> str:
    """Start ``agent-env serve`` on a free port, and return its URL once it answers.

    Args:
        processes: the server is one of them, and ends with them.
        bundle: a folder, or the name of a built-in one.
        output: file for all it prints.
        token: where the one is that it asks for.

    Raises:
        InputError: it ended, saying why, or does not answer.
    """
    command = [sys.executable, "-m", "agent_env.cli.main", "serve", bundle, "--port", "0"]
    command += ["--max-sessions", str(max_sessions), "--peer-timeout", str(PEER_TIMEOUT), *token.options]
    with output.open("w", encoding="utf-8") as file:
        server = processes.start(command, environment=os.environ, output=file, errors=subprocess.STDOUT)
    deadline = time.monotonic() + SECONDS
    while True:
        printed = output.read_text(encoding="utf-8", errors="replace")
        if ready := _SERVING.search(printed):
            return ready[1]
        if server.poll() is not None:
            raise InputError(Problem(f"serving {bundle}", printed.strip() or f"ended with {server.returncode}"))
        if time.monotonic() > deadline:
            raise InputError(Problem(f"serving {bundle}", f"no sign of life in {SECONDS:.0f} s; see {output}"))
        time.sleep(_POLL)
