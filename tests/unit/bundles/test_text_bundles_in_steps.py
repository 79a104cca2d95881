"""The text bundles in the step layout: what is seen says all, so equal states have equal prompts."""

from dataclasses import replace

import pytest

from agent_env import load_bundle
from agent_env.step_prompt import StepPrompt, View
from agent_env.training.step_layout import combined


@pytest.mark.parametrize("name", ["key_door", "sokoban", "gym_cards"])
def test_equal_states_have_equal_prompts(name):
    bundle = load_bundle(name)
    options = combined([bundle.step_layout], {}, bundle.path)
    assert options.memory == "none"
    template = StepPrompt(options.step_prompt)
    view = View("Go.", "G . A", 1, 50, actions=("left", "right"))
    assert (
        template.render(view)
        == template.render(replace(view, step=7))
        == ("Go.\n\nG . A\n\nPossible actions: left, right\nWrite your next action as <action>...</action>")
    )


def test_a_note_and_a_memory_that_was_asked_for_are_shown():
    template = StepPrompt(load_bundle("sokoban").step_prompt)
    view = View("Go.", "G . A", 2, 50, memory="Step 1", actions=None, note="That was no action.")
    assert template.render(view) == (
        "Go.\n\nStep 1\n\nG . A\n\nThat was no action.\n\nWrite your next action as <action>...</action>"
    )
