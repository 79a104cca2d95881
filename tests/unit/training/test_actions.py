"""What a reply to a text environment does, and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.training.actions import read_action, split_thought, text_argument


def tool(name, *arguments):
    properties = {argument: {"type": "string"} for argument in arguments}
    return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}


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
    written = read_action(reply)
    assert (written.action, written.problem) == (action, "")


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
    written = read_action(reply)
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
    written = read_action(reply)
    assert (written.action is None) == bool(written.problem)
    assert written.action != ""


def test_one_tool_act_with_one_argument_is_played_by_text():
    assert text_argument([tool("act", "action")]) == "action"
    assert text_argument([tool("act", "move")]) == "move"
    assert text_argument([tool("act")]) is None
    assert text_argument([tool("act", "action", "speed")]) is None
    assert text_argument([tool("act", "action"), tool("end_turn", "response")]) is None
    assert text_argument([tool("open", "door")]) is None
    assert text_argument([]) is None
