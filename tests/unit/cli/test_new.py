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


def test_the_folder_that_a_shell_is_in_is_filled_if_it_is_empty(tmp_path):
    (tmp_path / "game").mkdir()
    code = f'cd game && "{sys.executable}" -m agent_env.cli.main new . && ls -A && ls -A ../game'
    new = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert new.returncode == 0, new.stderr
    wrote, following, *listed = new.stdout.splitlines()
    assert wrote == "wrote README.md, bundle.toml, demonstrator.py, env.py, tasks.py to ."
    assert following == "next: agent-env check ."
    # What the shell sees where it is, and what is there for others.
    assert listed == ["README.md", "bundle.toml", "demonstrator.py", "env.py", "tasks.py"] * 2
    assert 'name = "game"' in (tmp_path / "game" / "bundle.toml").read_text()
    again = agent_env("new", ".", cwd=tmp_path / "game")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == "agent-env: .: is there already (nothing is overwritten; give another path)\n"
