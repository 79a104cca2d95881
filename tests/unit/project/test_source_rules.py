"""What the source may not do, whatever it is for: run text as code, unpickle, ask the wall clock for a deadline."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "agent_env"

FORBIDDEN = {
    # Text run as code.
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "runs text as code",
    "os.system": "runs text in a shell",
    "os.popen": "runs text in a shell",
    "subprocess.getoutput": "runs text in a shell",
    "subprocess.getstatusoutput": "runs text in a shell",
    # Data that runs code when it is read.
    **{
        f"{module}.{function}": "runs code that is hidden in data: read JSON"
        for module in ("pickle", "cloudpickle", "dill", "marshal", "joblib", "torch", "shelve")
        for function in ("load", "loads", "Unpickler", "open")
    },
    "numpy.load": "may unpickle: read another format",
    **{
        f"yaml.{name}": "makes objects: use yaml.safe_load" for name in ("load", "load_all", "full_load", "unsafe_load")
    },
    # A clock that jumps.
    "time.time": "jumps: deadlines and durations use time.monotonic",
    "time.time_ns": "jumps: deadlines and durations use time.monotonic_ns",
    "datetime.datetime.now": "jumps: deadlines and durations use time.monotonic",
    "datetime.datetime.utcnow": "jumps: deadlines and durations use time.monotonic",
    "datetime.datetime.today": "jumps: deadlines and durations use time.monotonic",
    # Certificates that nobody verifies.
    "ssl._create_unverified_context": "verifies no certificate",
}
SANDBOX = "is no sandbox: use jinja2.sandbox.ImmutableSandboxedEnvironment"
NOT_CALLED = {
    "jinja2.Environment": SANDBOX,
    "jinja2.Template": SANDBOX,
    "jinja2.sandbox.SandboxedEnvironment": "lets templates change what they are given",
}
"""That may be named, as a type."""
OPTIONS = [("shell", True), ("allow_pickle", True), ("verify", False), ("weights_only", False)]
"""Arguments that no call may have."""
STAMPS = {"src/agent_env/training/traces.py"}
"""Modules that say when something was, by the wall clock."""
MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
"""That the source has no use for at all."""


def calls(tree: ast.AST) -> Iterator[tuple[int, str, ast.Call | None]]:
    """The line and the full name of every name that is used, with its call if it is one."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            parts: list[str] = []
            part: ast.expr = node
            while isinstance(part, ast.Attribute):
                parts.insert(0, part.attr)
                part = part.value
            if isinstance(part, ast.Name):
                yield node.lineno, ".".join([names.get(part.id, part.id), *parts]), called.get(id(node))


def found(text: str) -> list[str]:
    """What is forbidden in a module, each with its line."""
    tree = ast.parse(text)
    problems = []
    for line, name, call in calls(tree):
        if name in FORBIDDEN or (call is not None and name in NOT_CALLED):
            problems.append(f"{line}: {name} {FORBIDDEN.get(name) or NOT_CALLED[name]}")
        for keyword in [] if call is None else call.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if (keyword.arg, value) in OPTIONS:
                problems.append(f"{line}: {name}({keyword.arg}={value})")
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        problems += [f"{node.lineno}: import {name}" for name in modules if name.split(".")[0] in MODULES]  # type: ignore[attr-defined]
    return problems


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "run = exec",
        "from os import system as run\nrun('ls')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import pickle",
        "from cloudpickle import loads",
        "import torch\ntorch.load('x')",
        "import numpy as np\nnp.load('x')",
        "import yaml\nyaml.load('x')",
        "import jinja2\njinja2.Template('x')",
        "from jinja2 import Environment\nEnvironment()",
        "import time\ndeadline = time.time() + 1",
        "from time import time\ntime()",
        "import time as t\nclock = t.time",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "import httpx\nhttpx.get('x', verify=False)",
    ],
)
def test_the_rules_find_what_they_forbid(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "model.eval()",
        "import re\nre.compile('x')",
        "import yaml\nyaml.safe_load('x')",
        "import time\ntime.monotonic()",
        "import json\njson.loads('1')",
    ],
)
def test_the_rules_leave_the_rest_alone(text: str) -> None:
    assert found(text) == []


def test_no_module_of_the_source_breaks_them() -> None:
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 100
    problems = []
    for module in modules:
        name = module.relative_to(ROOT).as_posix()
        said = [f"{name}:{what}" for what in found(module.read_text(encoding="utf-8"))]
        problems += [what for what in said if not (name in STAMPS and "jumps: " in what)]
    assert problems == []
