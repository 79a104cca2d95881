"""A bundle whose environment does on request whatever an environment can do to its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.bundles import jsonl, write_bundle

ENV = '''
import asyncio
import os
import subprocess
import sys
import threading
import time

from agent_env import Environment, Observation, ToolError, tool


class Trials(Environment):
    """Does what it is told."""

    def reset(self, task, seed):
        self.log = task.env.get("log")
        self.write("reset")
        what = task.env.get("reset")
        if what == "raise":
            raise RuntimeError("there is no scene")
        if what == "sleep":
            time.sleep(4)
        if what == "nan":
            return Observation("a scene", reward=float("nan"))
        return Observation(f"seed {seed}", actions=("echo",), info={"seed": seed})

    def close(self):
        self.write("close")

    def write(self, line):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{line} {os.getpid()} {threading.get_ident()}\\n")

    @tool
    def echo(self, text: str) -> str:
        """Say it again."""
        return text

    @tool
    def where(self) -> dict:
        """Tell the process and the thread."""
        return {"pid": os.getpid(), "thread": threading.get_ident()}

    @tool
    def sleep(self, seconds: float) -> str:
        """Block for some time."""
        self.write("sleep")
        time.sleep(seconds)
        return "awake"

    @tool
    def hold(self, path: str) -> str:
        """Block until there is a file of that name."""
        self.write("hold")
        while not os.path.exists(path):
            time.sleep(0.01)
        return "released"

    @tool
    async def nap(self, seconds: float) -> str:
        """Wait for some time without blocking."""
        self.write("nap")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.write("cancelled")
            raise
        return "awake"

    @tool
    def spin(self) -> str:
        """Compute for ever."""
        self.write("spin")
        while True:
            pass

    @tool
    def leave(self, status: int) -> str:
        """End the process."""
        os._exit(status)

    @tool
    def fail(self) -> str:
        """Raise an error of the environment."""
        raise RuntimeError("the stove is on fire")

    @tool
    def exit(self) -> str:
        """Raise what ends a program."""
        raise KeyboardInterrupt("stop it all")

    @tool
    def refuse(self) -> str:
        """Refuse the model."""
        raise ToolError("not like this")

    @tool
    def look(self, text: str, reward: float) -> Observation:
        """See something."""
        return Observation(text, images=("data:image/png;base64,AAAA",), reward=reward)

    @tool
    def nan(self) -> dict:
        """Answer with no number."""
        return {"cost": float("nan")}

    @tool
    def surrogate(self) -> str:
        """Answer with text that is no Unicode."""
        return "a\\ud800b"

    @tool
    def odd(self) -> Observation:
        """Answer with an info that JSON cannot hold."""
        return Observation("odd", info={"what": object()})

    @tool
    def big(self, size: int) -> str:
        """Answer at length."""
        return "x" * size

    @tool
    def pictures(self, size: int) -> Observation:
        """Answer with an image of so many bytes."""
        return Observation("a picture", images=("x" * size,))

    @tool
    def child(self) -> int:
        """Start a process that outlives its parents if nobody ends it; tells its number."""
        return subprocess.Popen(["sleep", "600"], start_new_session=True).pid

    @tool
    def leak(self, megabytes: int) -> str:
        """Take memory and keep it."""
        self.kept = [bytearray(b"x") * (32 << 20) for _ in range(megabytes // 32)]
        return "kept"

    @tool
    def burn(self, processes: bool) -> str:
        """Leave something running that computes for ever: a process, or else a thread."""
        if processes:
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
        else:
            threading.Thread(target=self.spin, daemon=True).start()
        return "lit"

    @tool
    def fork(self) -> str:
        """Become two processes, each of which returns."""
        return f"{'parent' if os.fork() else 'child'}"

    @tool
    def multiply(self) -> str:
        """Become ever more processes."""
        while True:
            if os.fork() == 0:
                kept = bytearray(b"x") * (64 << 20)
                time.sleep(600)
            time.sleep(0.05)

    @tool
    def chatter(self, megabytes: int) -> str:
        """Print so much."""
        for _ in range(megabytes * 1024):
            print("x" * 1023, flush=True)
        return "said"

    def score(self, reply):
        return float(reply)
'''

TOML = """
name = "trials"
description = "Trials of a server."
env = "env:Trials"
splits = ["train", "eval"]
reward = "mean"

[hosting]
mode = "{mode}"
workers = {workers}

[limits]
reset_timeout = {limit}
call_timeout = {limit}
score_timeout = {limit}
max_answer_bytes = {max_answer}
{caps}
"""

ENV_TURN = {"id": "first", "prompt": "What is your score?", "verifier": {"type": "env"}}
EXACT_TURN = {"id": "second", "prompt": "Say yes.", "verifier": {"type": "exact", "text": "yes"}}


def write_trials(
    folder: Path,
    mode: str = "threads",
    *,
    workers: int = 2,
    limit: float = 60,
    max_answer: int = 65536,
    caps: str = "",
    **env: Any,
) -> Path:
    """Write the bundle into `folder`; `env` reaches the environment of every task, `caps` are more lines of limits.

    Split train: 0 plain, of one turn; 1 of two turns; then resets that 2 raise, 3 sleep, 4 give NaN. Split eval: one.
    """
    train = [
        {"id": "plain", "system_prompt": "Be brief.", "seed": 7, "env": env, "turns": [ENV_TURN]},
        {"id": "two", "env": env, "turns": [ENV_TURN, EXACT_TURN]},
        *(
            {"id": f"reset-{what}", "env": {**env, "reset": what}, "turns": [ENV_TURN]}
            for what in ("raise", "sleep", "nan")
        ),
    ]
    files: dict[str, str | None] = {
        "bundle.toml": TOML.format(mode=mode, workers=workers, limit=limit, max_answer=max_answer, caps=caps),
        "env.py": ENV,
        "tasks/train.jsonl": jsonl(*train),
        "tasks/eval.jsonl": jsonl({"id": "held-out", "env": env, "turns": [ENV_TURN]}),
    }
    return write_bundle(folder, files)
