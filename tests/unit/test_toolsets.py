"""Tools that an environment describes by JSON Schemas, and that differ from task to task."""

import pytest

from agent_env import BundleError, Episode, EpisodeError, load_bundle
from agent_env.checking.play import loaded
from agent_env.hosting.local import LocalHandle
from agent_env.openenv.catalogue import Catalogue
from support.bundles import TOML, jsonl, task, write_bundle

DESK = """
from agent_env import DescribedEnvironment, Observation, ToolError, ToolSpec

TEXT = {"type": "string"}
FIND = {"type": "object", "properties": {"name": TEXT, "many": {"type": "integer"}}, "required": ["name"]}
BOOK = {
    "type": "object",
    "properties": {"seats": {"type": "array", "items": {"type": "object", "required": ["row"]}}},
    "required": ["seats"],
    "additionalProperties": False,
}
TOOLS = {
    "calls": (ToolSpec("find", "Find a customer.", FIND), ToolSpec("refund", "Refund.", {"type": "object"})),
    "flights": (ToolSpec("find", "Find a flight.", FIND), ToolSpec("book-flight", "Book.", BOOK)),
}


class Desk(DescribedEnvironment):
    @classmethod
    def tools(cls, task):
        return TOOLS[task.env["domain"]]

    def reset(self, task, seed):
        self.done = []

    async def call(self, name, arguments):
        self.done.append(name)
        if name == "refund":
            raise ToolError("there is nothing to refund")
        if arguments.get("name") == "nobody":
            raise KeyError("nobody")
        return Observation(f"{name} {arguments}", reward=1.0)

    def score(self, reply):
        return float(len(self.done) == 1)
"""
TASKS = jsonl(*(task(id, env={"domain": domain}) for id, domain in (("a", "calls"), ("b", "flights"), ("c", "calls"))))


@pytest.fixture
def bundle(tmp_path):
    return load_bundle(desk(tmp_path))


def desk(folder, code=DESK, toml=""):
    files = {"env.py": code, "tasks/train.jsonl": TASKS, "bundle.toml": TOML.replace("Counter", "Desk") + toml}
    return write_bundle(folder, files)


async def answers(bundle, index, *calls):
    """The answers to calls in a task, and the reward."""
    episode = Episode(bundle, bundle.tasks("train")[index], LocalHandle(bundle))
    await episode.start()
    results = [await episode.call(name, arguments) for name, arguments in calls]
    ended = await episode.end_turn("done")
    await episode.close()
    return results, ended.reward


def test_tasks_have_the_tools_that_are_described_for_them(bundle):
    first, second, third = (bundle.toolset(task) for task in bundle.tasks("train"))
    assert [tool.name for tool in first.tools] == ["find", "refund"]
    assert [tool.name for tool in second.tools] == ["find", "book-flight"]
    assert third is first
    assert first.hash != second.hash
    assert {*Catalogue(bundle, capacity=1).toolsets} == {first.hash, second.hash}
    assert {*loaded(bundle).tools} == {"find", "refund", "book-flight"}


async def test_a_call_that_fits_is_made(bundle):
    results, reward = await answers(bundle, 1, ("book-flight", {"seats": [{"row": 1}]}))
    assert results[0].text == "book-flight {'seats': [{'row': 1}]}"
    assert results[0].observation.reward == 1.0
    assert reward == 1.0


async def test_a_model_s_mistakes_are_answers_and_run_nothing(bundle):
    results, reward = await answers(
        bundle,
        1,
        ("zoom", {}),
        ("fin", {"name": "x"}),
        ("find", {"many": "3"}),
        ("find", ["x"]),
        ("find", {"name": float("nan")}),
        ("book-flight", {"seats": [{"row": 1}, {}], "seat": 1}),
        ("find", {"name": ["x" * 500]}),
    )
    assert [result.kind for result in results] == ["tool_not_found"] * 2 + ["invalid_args"] * 5
    assert results[0].text == "There is no tool 'zoom'. The tools are: find, book-flight."
    assert results[1].text.startswith("There is no tool 'fin'. Did you mean 'find'?")
    assert results[2].text == (
        "Invalid arguments for find:\n- arguments: 'name' is a required property\n- many: '3' is not of type 'integer'"
    )
    assert results[3].text == 'Invalid arguments for find: expected a JSON object, got ["x"]'
    assert results[4].text == "Invalid arguments for find:\n- name: NaN and infinities are not JSON"
    assert results[5].text == (
        "Invalid arguments for book-flight:\n"
        "- arguments: Additional properties are not allowed ('seat' was unexpected)\n"
        "- seats[1]: 'row' is a required property"
    )
    assert len(results[6].text) < 300
    assert reward == 0.0


async def test_a_tool_error_is_an_answer_and_anything_else_ends_the_episode(bundle):
    results, _ = await answers(bundle, 0, ("refund", {}))
    assert (results[0].text, results[0].kind) == ("there is nothing to refund", "tool_error")
    with pytest.raises(EpisodeError, match="tool 'find' raised KeyError: 'nobody'"):
        await answers(bundle, 0, ("find", {"name": "nobody"}))


def problems(folder):
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    return [str(problem) for problem in caught.value.problems]


def test_what_is_wrong_with_the_tools_is_said(tmp_path):
    code = DESK.replace('ToolSpec("refund"', 'ToolSpec("close", "", FIND), ToolSpec("a b", "", FIND), ToolSpec("find"')
    assert problems(desk(tmp_path / "names", code)) == [
        "Desk.tools of task 'a': two tools are named 'find' (rename one)",
        "Desk.tools of task 'a': the name 'close' is reserved (rename the tool)",
        "Desk.tools of task 'a': 'a b': model APIs allow 64 of A-Z, a-z, 0-9, _ and - (rename the tool)",
    ]
    code = DESK.replace("return TOOLS[", "return [*TOOLS][")
    assert problems(desk(tmp_path / "key", code)) == [
        "env:Desk tools: TypeError: list indices must be integers or slices, not str"
    ]
    code = DESK.replace('return TOOLS[task.env["domain"]]', "return []")
    assert problems(desk(tmp_path / "list", code)) == [
        "Desk.tools of task 'a': expected a tuple of ToolSpec (return the same one for tasks that share it)"
    ]


def test_a_tag_s_tool_takes_a_text_in_every_task(tmp_path):
    load_bundle(desk(tmp_path / "every", toml='[steps]\ntags = {find = "find"}\n'))
    (problem,) = problems(desk(tmp_path / "some", toml='[steps]\ntags = {refund = "refund"}\n'))
    assert problem.endswith("'refund' does not require one text (name one that does: find, end_turn)")
