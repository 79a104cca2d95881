"""What a reply to a text environment does, and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.actions import Tag, read_action, split_thought, text_tags

ACTION = (Tag("action", "act", "action"),)
SEARCH, ANSWER = Tag("search", "search", "query"), Tag("answer", "end_turn", "response")


def tool(name, *arguments):
    properties = {argument: {"type": "string"} for argument in arguments}
    parameters = {"properties": properties, "required": [a for a in arguments if a != "limit"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<action>go north</action>", "go north"),
        ("I will.\n<action>\n go   north\n</action> Then I rest.", "go north"),
        ("<ACTION>look</Action>", "look"),
        ("<think>West? <action>west</action></think><action>east</action>", "east"),
        ("West is bad.</think>\n<action>east</action>", "east"),
        ("<think>a</think><think>b</think><action>east</action>", "east"),
        ("<action>say 1 < 2 & </b></action>", "say 1 < 2 & </b>"),
        ("<action>日本</action>", "日本"),
    ],
)
def test_exactly_one_action(reply, action):
    written = read_action(reply, ACTION)
    assert (written.action, written.problem, written.tag) == (action, "", ACTION[0])


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "held no action"),
        ("go north", "held no action"),
        ("</action>north", "held no action"),
        ("<action>north", "was not closed"),
        ("</action><action>north", "was not closed"),
        ("<action> \n </action>", "was empty"),
        ("<action>north</action> or <action>south</action>", "held 2 actions"),
        ("<action>north</action> and <action>south", "held 2 actions"),
        ("<action>go <action>north</action>", "held 2 actions"),
        ("<think><action>north</action>", "held no action"),
        ("<action>north</action></think>", "held no action"),
    ],
)
def test_none_is_guessed(reply, problem):
    written = read_action(reply, ACTION)
    assert written.action is None
    assert problem in written.problem
    assert written.problem.endswith("write exactly one, as <action>...</action>.")


@pytest.mark.parametrize(
    ("reply", "thought", "words"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "hm", "Yes."),
        ("hm</think>Yes.", "hm", "Yes."),
        ("Yes.", "", "Yes."),
        ("Yes. <think>wait", "wait", "Yes."),
        ("<think></think>Yes.", "", "Yes."),
        ("<think>a</think>One. <think>b</think>Two.", "a\nb", "One. Two."),
    ],
)
def test_thoughts_are_set_aside(reply, thought, words):
    assert split_thought(reply) == (thought, words)


@given(st.text(st.sampled_from("<>/actionhk \n"), max_size=60))
def test_any_text_is_read(reply):
    written = read_action(reply, ACTION)
    assert (written.action is None) == bool(written.problem)
    assert written.action != ""


@pytest.mark.parametrize(
    ("reply", "action", "tag"),
    [
        ("<search> who wrote  Carmen? </search>", "who wrote  Carmen?", SEARCH),
        ("<think><answer>x</answer></think>\n<SEARCH>x</search>", "x", SEARCH),
        ("It says so. <answer>line 1\n  line 2</answer>", "line 1\n  line 2", ANSWER),
        ("<answer>a < b, <search/></answer>", "a < b, <search/>", ANSWER),
    ],
)
def test_one_of_several_tags(reply, action, tag):
    written = read_action(reply, (SEARCH, ANSWER))
    assert (written.action, written.tag, written.problem) == (action, tag, "")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("<action>x</action>", "held no action"),
        ("<search>x</search><answer>y</answer>", "held 2 actions"),
        ("<search>x</search><search>y</search>", "held 2 actions"),
        ("<answer><search>x</search></answer>", "held 2 actions"),
        ("<search>x</answer>", "was not closed"),
        ("<answer></answer>", "was empty"),
    ],
)
def test_none_of_several_is_guessed(reply, problem):
    written = read_action(reply, (SEARCH, ANSWER))
    assert (written.action, written.tag) == (None, None)
    assert problem in written.problem
    assert written.problem.endswith("write exactly one, as <search>...</search> or <answer>...</answer>.")


def test_one_tool_act_with_one_argument_is_played_by_text():
    assert text_tags([tool("act", "action")]) == (Tag("action", "act", "action"),)
    assert text_tags([tool("act", "move")]) == (Tag("action", "act", "move"),)
    assert text_tags([tool("act")]) == ()
    assert text_tags([tool("act", "action", "speed")]) == ()
    assert text_tags([tool("act", "action"), tool("end_turn", "response")]) == ()
    assert text_tags([tool("open", "door")]) == ()
    assert text_tags([]) == ()


def test_a_bundles_own_tags():
    wanted = {"search": "search", "answer": "end_turn"}
    assert text_tags([tool("search", "query")], wanted) == (SEARCH, ANSWER)
    assert text_tags([tool("search", "query"), tool("end_turn", "response")], wanted) == (SEARCH, ANSWER)
    assert text_tags([tool("search", "query", "limit")], wanted) == (SEARCH, ANSWER)
    with pytest.raises(InputError) as refused:
        text_tags([tool("search", "query"), tool("move", "x", "y")], {"find": "find", "move": "move", **wanted})
    assert [str(problem) for problem in refused.value.problems] == [
        "tags.find: 'find' is no tool of this task that requires one argument",
        "tags.move: 'move' is no tool of this task that requires one argument",
    ]
