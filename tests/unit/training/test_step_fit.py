"""How a step's prompt is made to fit; a token is a word here."""

import pytest

from agent_env.errors import PromptTooLong
from agent_env.step_prompt import View
from agent_env.training.memory import PastStep, memory_of
from agent_env.training.step_fit import fitted, without_middle


def words(text):
    return len(text.split())


class Builder:
    """Task, memory, a line around it, observation and actions, a word a token; counts how often it is asked."""

    def __init__(self):
        self.built = 0

    async def __call__(self, view):
        self.built += 1
        around = f"before: {view.memory} now:" if view.memory else ""
        text = f"{view.task} {around} {view.observation} {' '.join(view.actions or ())}"
        return list(range(words(text)))


@pytest.fixture
def memory():
    """Three steps of 6 words each."""
    memory = memory_of("full")()
    for number in (1, 2, 3):
        memory.add(PastStep(number, f"room{number}", "go", "ok"))
    return memory


def view(observation="a b c d", actions=("up", "down")):
    return View("do it", observation, 4, 9, actions=actions)


async def test_what_fits_is_whole_and_built_once(memory):
    # 2 of the task, 2 around the memory, 18 of it, 4 of the observation, 2 actions.
    build = Builder()
    made = await fitted(view(), memory, 28, build, words)
    assert (len(made.prompt_ids), made.cut, build.built) == (28, 0, 1)
    assert made.view.memory.count("Step") == 3


async def test_memory_gives_way_step_by_step(memory):
    for limit, steps in ((27, 2), (22, 2), (21, 1), (16, 1), (15, 0), (8, 0)):
        made = await fitted(view(), memory, limit, Builder(), words)
        assert made.view.memory.count("Step") == steps, limit
        assert len(made.prompt_ids) <= limit
        assert (made.view.observation, made.cut) == ("a b c d", 0)


async def test_a_wordy_template_costs_a_memory_no_more_than_its_words(memory):
    async def build(view):
        around = "word " * 100 if view.memory else ""
        return list(range(words(f"{view.task} {around} {view.memory} {view.observation}")))

    # 6 without a memory; 100 and 18 with all of it, 100 and 12 with two steps.
    assert (await fitted(view(), memory, 124, build, words)).view.memory.count("Step") == 3
    assert (await fitted(view(), memory, 123, build, words)).view.memory.count("Step") == 2
    assert (await fitted(view(), memory, 112, build, words)).view.memory.count("Step") == 1
    assert (await fitted(view(), memory, 111, build, words)).view.memory == ""


async def test_a_memory_that_does_not_keep_to_its_budget_is_left_out():
    class Stubborn:
        def add(self, past): ...

        def render(self, observation, budget, size):
            return "again and again"

    build = Builder()
    made = await fitted(view(), Stubborn(), 12, build, words)
    assert (made.view.memory, len(made.prompt_ids)) == ("", 8)
    assert build.built == 8  # whole, bare, and six tries


async def test_then_the_middle_of_the_observation(memory):
    observation = " ".join(f"w{n:02}" for n in range(40))
    made = await fitted(view(observation), memory, 20, Builder(), words)
    assert made.view.memory == ""
    assert len(made.prompt_ids) == 20
    head, mark, tail = made.view.observation.split("\n")
    assert observation.startswith(head)
    assert observation.endswith(tail)
    assert made.cut == len(observation) - len(head) - len(tail)
    assert mark == f"[... {made.cut} characters left out ...]"
    assert abs(len(head) - len(tail)) <= 1


async def test_never_task_or_actions(memory):
    # The mark has 6 words, task and actions 4.
    made = await fitted(view("word " * 50), memory, 10, Builder(), words)
    assert made.view.observation == "[... 250 characters left out ...]"
    with pytest.raises(
        PromptTooLong, match="step 4: without memory and observation the prompt still has 10 tokens, over 9"
    ):
        await fitted(view("word " * 50), memory, 9, Builder(), words)


async def test_nothing_to_see_is_nothing_to_cut(memory):
    with pytest.raises(PromptTooLong, match="still has 4 tokens, over 3"):
        await fitted(view(""), memory, 3, Builder(), words)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (0, "[... 5 characters left out ...]"),
        (1, "a\n[... 4 characters left out ...]"),
        (2, "a\n[... 3 characters left out ...]\ne"),
        (3, "ab\n[... 2 characters left out ...]\ne"),
        (4, "ab\n[... 1 characters left out ...]\nde"),
    ],
)
def test_what_is_left_of_a_text(kept, expected):
    assert without_middle("abcde", kept) == expected
