"""What docs/authoring.md shows is what happens."""

import re
from pathlib import Path

import pytest

from agent_env import load_bundle
from agent_env.checking import check_bundle
from agent_env.tools import RESERVED_TOOLS, call_tool
from agent_env.verifiers import VERIFIERS

PAGE = (Path(__file__).parents[3] / "docs" / "authoring.md").read_text(encoding="utf-8")


@pytest.fixture
def kitchen(tmp_path):
    """The page's bundle with the page's demonstrator."""
    files = dict(re.findall(r"`kitchen/([\w./]+)`[^\n]*\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))
    assert sorted(files) == ["bundle.toml", "env.py", "tasks/train.jsonl"]
    (files["demonstrator.py"],) = re.findall(r"```python\n(from agent_env import Call, Reply\n.*?)```", PAGE, re.DOTALL)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_its_bundle_is_sound(kitchen):
    assert check_bundle(kitchen).findings == ()
    assert len((kitchen / "env.py").read_text().splitlines()) <= 25


async def test_its_answer_to_wrong_arguments_is_what_a_model_reads(kitchen):
    (shown,) = re.findall(r"```\n(Invalid arguments for open:\n.*?)\n```", PAGE, re.DOTALL)
    env = load_bundle(kitchen).environment()
    assert (await call_tool(env, "open", {"contaner": "oven"})).text == shown


def test_it_names_every_verifier_and_every_reserved_tool():
    table = PAGE[PAGE.index("### Verifiers") : PAGE.index("### Rewards")]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE)[1:] == list(VERIFIERS)
    (named,) = re.findall(r"No tool may be named (.*?)\.\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", named)) == RESERVED_TOOLS
