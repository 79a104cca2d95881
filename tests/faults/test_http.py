"""Requests made up by schemathesis from what the server says of itself in ``/openapi.json``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.faults import Fault
from support.servers import serving

EXAMPLES = 30
"""Of each of its phases, for each route."""
TOKEN = "s3cret"

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("with_token", [False, True], ids=["open", "token"])
def test_the_http_routes_keep_to_their_description(tmp_path: Path, fault: Fault, with_token: bool) -> None:
    fault.fault = f"HTTP requests: anything{', at a server with a token' if with_token else ''}"
    options = ("--token-var", "SERVED_TOKEN") if with_token else ()
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        *("--checks", "all", "--max-examples", str(EXAMPLES), "--request-timeout", "60"),
        # Which splits and tasks there are is for the server to say, not for its description.
        *("--exclude-checks", "positive_data_acceptance"),
        *(("-H", f"Authorization: Bearer {TOKEN}") if with_token else ()),
    ]
    with serving("inbox", *options, env={"SERVED_TOKEN": TOKEN}) as server:
        done = subprocess.run(
            [*command, f"{server.url}/openapi.json"],
            cwd=tmp_path,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
        assert not [line for line in server.log if "Traceback" in line]
    operations = re.search(r"Tested: (\d+)", done.stdout)
    cases = re.search(r"(\d+) generated, \d+ passed", done.stdout)
    assert operations is not None, done.stdout
    assert cases is not None, done.stdout
    assert int(operations[1]) == 12
    fault.injected = f"{cases[1]} requests made up by schemathesis from /openapi.json"
    fault.seen = "no answer that the description does not have: of status, type, schema, header or method"
    fault.lost = "nothing"
