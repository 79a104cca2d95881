"""``agent-env new`` as it is typed."""

import subprocess
import sys


def agent_env(*arguments, cwd):
    command = [sys.executable, "-m", "agent_env.cli.main", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)


def test_a_new_bundle_has_nothing_to_be_found(tmp_path):
    new = agent_env("new", "game", cwd=tmp_path)
    assert new.returncode == 0
    assert new.stdout == (
        "wrote README.md, bundle.toml, demonstrator.py, env.py, tasks.py to game\nnext: agent-env check game\n"
    )
    check = agent_env("check", "game", cwd=tmp_path)
    assert (check.returncode, check.stdout) == (
        0,
        "game: 250 tasks, 2 splits, 1 tool; played 164 episodes, 100 of them at once: nothing found\n",
    )
    again = agent_env("new", "game", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == "agent-env: game: is there already (nothing is overwritten; give another path)\n"
