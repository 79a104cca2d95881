"""A few steps of `agent-env train` on an untrained tiny model, with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent_env.training.traces import Trace, read_traces
from support.tiny_folder import tiny_folder


def trained(
    folder: Path, bundle: str | Path, steps: int, *arguments: str, timeout: float = 500, model: Path | None = None
) -> tuple[list[dict[str, Any]], list[Trace]]:
    """Train in `folder`, and fail if that fails, leaves out a step or loses a session.

    Args:
        arguments: for `agent-env train`, beside model, run and steps.
        timeout: seconds.
        model: a folder; a tiny model of text if None.

    Returns:
        Each step's metrics, and all traces.
    """
    model = model or tiny_folder(folder / "model")
    command = [sys.executable, "-m", "agent_env.cli.main", "train", str(bundle), "--model", str(model)]
    command += ["--run", "it", "--steps", str(steps), *arguments, "trainer.save_freq=-1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = folder / "runs" / "it"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, steps + 1))
    for line in lines:
        # A session that raised would be replaced by padding, and the run would still end well.
        assert line["data"]["training/rollout_failure/lost_sessions"] == 0
    return [line["data"] for line in lines], list(read_traces(run / "traces"))
