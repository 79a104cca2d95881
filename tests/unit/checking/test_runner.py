"""The process that plays: where it is when it says nothing."""

from __future__ import annotations

import subprocess
import sys

from agent_env.checking.runner import _place
from support.bundles import ENV, write_bundle


def test_the_line_that_a_silent_process_is_at_is_named(tmp_path):
    folder = write_bundle(
        tmp_path / "slow", {"env.py": ENV + "\nimport time\nprint('here', flush=True); time.sleep(600)\n"}
    )
    line = (folder / "env.py").read_text().splitlines().index("print('here', flush=True); time.sleep(600)") + 1
    log = tmp_path / "log"
    code = (
        "import faulthandler, sys\nfrom agent_env import load_bundle\nfrom agent_env.checking.child import WHERE\n"
        "faulthandler.register(WHERE)\nload_bundle(sys.argv[1])"
    )
    with log.open("wb") as errors:
        command = [sys.executable, "-c", code, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert _place(process, log, folder) == f", at env.py:{line}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert _place(process, log, folder) == ""
