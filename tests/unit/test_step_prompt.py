"""The template of the step layout: what it is given, what it refuses, and what the one for any bundle writes."""

from dataclasses import replace

import pytest

from agent_env.errors import InputError
from agent_env.step_prompt import StepPrompt, View

VIEW = View("Find the key.", "You see a door.", 3, 10, memory="Step 2", actions=("open", "knock"), note="Again.")


def said(template):
    with pytest.raises(InputError) as refused:
        StepPrompt(template, "step_prompt.md")
    return [str(problem) for problem in refused.value.problems]


class TestDefault:
    def test_an_action_in_text(self):
        assert StepPrompt().render(VIEW) == (
            "Find the key.\n\nWhat happened before:\n\nStep 2\n\nWhat you see now:\n\nYou see a door.\n\nAgain.\n\n"
            "Possible actions: open, knock\nSteps left: 8\nWrite your next action as <action>...</action>"
        )

    def test_the_first_step(self):
        first = replace(VIEW, step=1, memory="", note="", actions=None)
        assert StepPrompt().render(first) == (
            "Find the key.\n\nYou see a door.\n\nSteps left: 10\nWrite your next action as <action>...</action>"
        )

    def test_a_model_that_calls_tools_is_told_nothing_of_actions(self):
        tools = replace(VIEW, tags=(), memory="", observation="", note="")
        assert StepPrompt().render(tools) == "Find the key.\n\nSteps left: 8"

    def test_each_tag_that_an_action_may_be_written_in_is_named(self):
        said = StepPrompt().render(replace(VIEW, tags=("search", "answer"), actions=None))
        assert said.endswith("8\nWrite your next action as <search>...</search> or <answer>...</answer>")

    def test_what_looks_like_a_template_in_the_environments_words_is_text(self):
        assert "{{ 7 * 7 }} {% raw %} <b>" in StepPrompt().render(
            replace(VIEW, observation="{{ 7 * 7 }} {% raw %} <b>")
        )


def test_a_bundles_own_uses_every_name():
    own = "{{ task }}|{{ memory }}|{{ observation }}|{{ actions | length }}|{{ step }}|{{ steps_left }}|{{ max_steps }}"
    own += "|{{ note }}|{{ text_actions }}|{{ tags | join }}{% for n in range(2) %}.{% endfor %}"
    rendered = StepPrompt(own.replace("actions | length", "(actions or []) | length")).render(VIEW)
    assert rendered == "Find the key.|Step 2|You see a door.|2|3|8|10|Again.|True|action.."


class TestImages:
    SEEN = replace(VIEW, memory="", note="", actions=None, observation="A hall.", images=("data:1", "data:2"))

    def test_stand_where_the_template_has_them(self):
        assert StepPrompt().content(self.SEEN) == [
            {"type": "text", "text": "Find the key.\n\n"},
            {"type": "image", "image": "data:1"},
            {"type": "image", "image": "data:2"},
            {
                "type": "text",
                "text": "\n\nA hall.\n\nSteps left: 8\nWrite your next action as <action>...</action>",
            },
        ]

    def test_are_marks_in_what_is_text_alone(self):
        assert StepPrompt().render(self.SEEN).startswith("Find the key.\n\n[picture][picture]\n\nA hall.\n")

    def test_come_first_where_the_template_does_not_name_them(self):
        first, second, rest = StepPrompt("{{ task }} {{ observation }}").content(self.SEEN)
        assert (first["image"], second["image"], rest) == (
            "data:1",
            "data:2",
            {"type": "text", "text": "Find the key. A hall."},
        )

    def test_none_are_a_text(self):
        assert StepPrompt().content(VIEW) == StepPrompt().render(VIEW)

    def test_may_be_left_out_by_the_template(self):
        template = StepPrompt("{{ observation }}{% if step == 1 %}{{ images }}{% endif %}")
        assert template.content(self.SEEN) == "A hall."
        assert len(template.content(replace(self.SEEN, step=1))) == 3

    def test_cannot_be_claimed_by_a_text(self):
        claims = replace(self.SEEN, observation="\ufdd0", actions=("\ufdd0",), note="\ufdd0\ufdd0")
        blocks = StepPrompt().content(claims)
        assert [block["type"] for block in blocks] == ["text", "image", "image", "text"]
        assert "\ufffd" in blocks[-1]["text"]

    def test_twice_is_refused(self):
        assert said("{{ observation }}{{ images }}{{ images }}") == [
            "step_prompt.md: cannot be rendered: it shows 2 pictures in 4 places: write {{ images }} once"
        ]


class TestRefused:
    def test_names_that_there_are_not_all_at_once(self):
        problems = said("{{ observation }} {{ histroy }} {% if goal %}{% endif %}")
        assert [problem.split(",")[0] for problem in problems] == [
            "step_prompt.md: uses 'goal'",
            "step_prompt.md: uses 'histroy'",
        ]
        assert "task, memory, observation" in problems[0]

    def test_what_is_no_template_with_its_line(self):
        assert said("{{ observation }}\n{% if task %}\nno end")[0].startswith("step_prompt.md:3: is no template")

    def test_one_that_never_shows_the_observation(self):
        assert said("{{ task }}") == ["step_prompt.md: never shows the observation (write {{ observation }})"]

    @pytest.mark.parametrize(
        "bad",
        [
            "{{ actions | join }}",  # there may be none
            "{{ 1 / 0 }}",
            "{{ ''.__class__.__mro__ }}",
            "{{ observation.nothing }}",
            "{% for n in range(10000000) %}{% endfor %}",
            "{{ [].append(1) }}",
        ],
    )
    def test_one_that_fails_or_leaves_its_sandbox(self, bad):
        assert said("{{ observation }}" + bad)[0].startswith("step_prompt.md: cannot be rendered")
