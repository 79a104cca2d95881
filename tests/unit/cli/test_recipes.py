"""`agent-env recipes` lists what `--recipe` takes, a line each."""

from typer.testing import CliRunner

from agent_env.cli.main import app
from agent_env.training.verl import settings


def test_each_recipe_has_a_line_that_says_what_it_is():
    told = CliRunner().invoke(app, ["recipes"])
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert [line.split()[0] for line in lines] == settings.available("recipe")
    assert (
        "gigpo                  GiGPO: trajectories in their group, and steps among those from the same state (steps)"
        in lines
    )
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)
