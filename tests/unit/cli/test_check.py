"""``agent-env check`` as it is typed."""

import subprocess
import sys

from support.bundles import TOML, jsonl, task, write_bundle


def agent_env(*arguments, cwd):
    command = [sys.executable, "-m", "agent_env.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)


def test_findings_are_lines_and_status_1(tmp_path):
    tasks = jsonl(task("a"), task("a"), task("b", sed=1))
    write_bundle(tmp_path / "bad", {"tasks/train.jsonl": tasks})
    check = agent_env("check", "bad", cwd=tmp_path)
    assert check.returncode == 1
    assert check.stdout.splitlines() == [
        "tasks/train.jsonl:3 sed: unknown key 'sed' (did you mean 'seed'?)",
        "tasks/train.jsonl:2: the id 'a' is taken by tasks/train.jsonl:1 (rename it)",
        "bad: cannot be loaded: 2 findings",
    ]


def test_a_syntax_error_is_a_finding_with_its_line(tmp_path):
    write_bundle(tmp_path / "bad", {"bundle.toml": TOML + "reward = mean\n"})
    check = agent_env("check", "bad", cwd=tmp_path)
    assert check.returncode == 1
    assert check.stdout.startswith("bundle.toml:5: not TOML: ")


def test_what_is_no_bundle_is_status_2(tmp_path):
    check = agent_env("check", ".", cwd=tmp_path)
    assert (check.returncode, check.stdout) == (2, "")
    assert check.stderr.startswith("agent-env: .: is a folder without a bundle.toml")


def test_a_built_in_bundle_is_sound(tmp_path):
    check = agent_env("check", "inbox", cwd=tmp_path)
    assert (check.returncode, check.stderr) == (0, "")
    assert check.stdout.startswith("inbox: 140 tasks, 2 splits, 2 tools; played 164 episodes")
