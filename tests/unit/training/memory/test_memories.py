"""The contract that every memory keeps, and what each of them says."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.memory import PastStep, memory_of

OWN = """
class Diary:
    def __init__(self):
        self.actions = []

    def add(self, past):
        self.actions.append(past.action)

    def render(self, observation, budget, size):
        kept = list(self.actions)
        while kept and size(" ".join(kept)) > budget:
            kept.pop(0)
        return " ".join(kept)


class Half:
    def add(self, past): ...


value = 3
"""


def words(text):
    return len(text.split())


def past(number, observation="a hall", action="north", outcome="a door\nit is red", thought=""):
    return PastStep(number, observation, action, outcome, thought)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    file = tmp_path_factory.mktemp("own") / "diary.py"
    file.write_text(OWN)
    return str(file)


@pytest.fixture(params=["none", "recent(3)", "full", "summary(40)", "retrieve(2)", "own"])
def make(request, own):
    return memory_of(f"{own}:Diary" if request.param == "own" else request.param)


class TestContract:
    def test_it_says_nothing_of_an_episode_that_has_no_past(self, make):
        assert make().render("a hall", 100, words) == ""

    def test_it_says_nothing_without_a_budget(self, make):
        memory = make()
        memory.add(past(1))
        assert memory.render("a hall", 0, words) == ""

    def test_what_it_says_fits_into_every_budget(self, make):
        memory = make()
        for number in range(1, 9):
            memory.add(past(number, observation="a hall " * number, outcome=f"door {number}"))
            for budget in range(0, 120, 7):
                assert words(memory.render("a hall", budget, words)) <= budget

    def test_rendering_changes_nothing(self, make):
        memory, other = make(), make()
        for number in range(1, 6):
            step = past(number, observation=f"room {number}")
            memory.add(step)
            other.add(step)
            memory.render("a hall", 30, words)
            memory.render("room 1", 7, words)
        assert memory.render("room 2", 50, words) == other.render("room 2", 50, words)

    def test_an_episode_knows_nothing_of_another(self, make):
        one, other = make(), make()
        one.add(past(1, observation="the secret"))
        assert other.render("the secret", 100, words) == ""

    def test_empty_and_odd_texts_are_taken(self, make):
        memory = make()
        for number, text in enumerate(["", "\n\n", "  ", "日本語", "\ud800", "{{ x }}"], 1):
            memory.add(past(number, observation=text, action=text, outcome=text))
            assert isinstance(memory.render(text, 100, words), str)


@given(
    texts=st.lists(st.text(max_size=30), max_size=12),
    budget=st.integers(0, 60),
    kind=st.sampled_from(["recent(2)", "full", "summary(20)", "retrieve(3)"]),
)
def test_no_text_makes_a_memory_go_over_its_budget(texts, budget, kind):
    memory = memory_of(kind)()
    for number, text in enumerate(texts, 1):
        memory.add(past(number, observation=text, action=text[::-1], outcome=text))
    # In characters, where separators count, too.
    assert len(memory.render("a b c", budget, len)) <= budget


def test_recent_repeats_the_last_steps():
    memory = memory_of("recent(2)")()
    for number, room in enumerate(["hall", "kitchen", "cellar"], 1):
        memory.add(past(number, observation=room, action=f"leave {room}"))
    assert memory.render("attic", 100, words) == (
        "Step 2\nObservation: kitchen\nAction: leave kitchen\n\nStep 3\nObservation: cellar\nAction: leave cellar"
    )


def test_full_lets_the_oldest_go_and_says_how_many_if_there_is_room():
    memory = memory_of("full")()
    for number in range(1, 5):
        memory.add(past(number, observation="hall " * 10))
    # A step has 15 words, the line that counts what is missing 9.
    assert memory.render("", 60, words).count("Step") == 4
    text = memory.render("", 59, words)
    assert text.splitlines()[:3] == ["(the first 1 of 4 steps are left out)", "", "Step 2"]
    assert text.count("Step") == 3
    assert memory.render("", 53, words).startswith("Step 2")
    assert memory.render("", 15, words).startswith("Step 4")
    assert memory.render("", 14, words) == ""


def test_thoughts_are_told_if_they_are_kept():
    memory = memory_of("full")()
    memory.add(past(1, observation="hall", thought="dark here"))
    assert memory.render("", 100, words) == "Step 1\nObservation: hall\nThought: dark here\nAction: north"


def test_a_summary_has_a_line_a_step():
    memory = memory_of("summary(100)")()
    memory.add(past(1, action="open door", outcome="\n  It opens.\nYou see more.", thought="unsaid"))
    memory.add(past(2, action="look", outcome=""))
    memory.add(past(3, action="x" * 200, outcome="seen"))
    lines = memory.render("", 1000, len).splitlines()
    assert lines == [] or len("\n".join(lines)) <= 100
    assert memory.render("", 1000, words).splitlines() == [
        "1. open door -> It opens.",
        "2. look -> (nothing)",
        f"3. {'x' * 99}… -> seen",
    ]


def test_a_summary_keeps_to_its_own_tokens():
    memory = memory_of("summary(12)")()
    for number in range(1, 10):
        memory.add(past(number, action="go", outcome="ok"))
    # "8. go -> ok" has 4 words: two lines and no room for the 9 words that count the others, or three lines.
    assert memory.render("", 1000, words) == "7. go -> ok\n8. go -> ok\n9. go -> ok"


class TestRetrieve:
    def played(self, *observations, steps=2):
        memory = memory_of(f"retrieve({steps})")()
        for number, observation in enumerate(observations, 1):
            memory.add(past(number, observation=observation, action=f"a{number}"))
        return memory

    def told(self, memory, observation, budget=100):
        text = memory.render(observation, budget, words)
        return [line for line in text.splitlines() if line.startswith("Action: ")]

    def test_the_nearest_are_told_in_the_order_they_were_played(self):
        memory = self.played("a red door", "the kitchen with a stove", "a blue door", "the garden")
        assert self.told(memory, "a door in the dark") == ["Action: a1", "Action: a3"]
        assert self.told(memory, "stove")[0] == "Action: a2"

    def test_of_equally_near_ones_the_later_are_told(self):
        memory = self.played("a hall", "a hall", "a hall")
        assert self.told(memory, "a hall") == ["Action: a2", "Action: a3"]
        assert self.told(memory, "unheard of") == ["Action: a2", "Action: a3"]

    def test_the_farthest_gives_way_to_the_budget(self):
        memory = self.played("stove and oven", "oven", "the garden")
        assert self.told(memory, "stove oven", budget=9) == ["Action: a1"]

    def test_signs_are_words(self):
        memory = self.played("# . A", "@ . B", "& & &", steps=1)
        assert self.told(memory, "@") == ["Action: a2"]


class TestChoice:
    @pytest.mark.parametrize("name", ["none", "recent", "recent(4)", " full ", "summary", "retrieve", "summary( 9 )"])
    def test_names_that_are_known(self, name):
        assert memory_of(name)().render("", 0, words) == ""

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("recnt", "there is no memory 'recnt'"),
            ("recent(0)", "expected 1 or more"),
            ("recent(-1)", "there is no memory"),
            ("full(3)", "there is no memory"),
            ("", "there is no memory"),
            ("no.such.module:Thing", "cannot be imported"),
            ("json:Thing", "cannot be imported"),
            ("json:dumps", "is no class"),
            ("collections:Counter", "has no add and no render"),
            ("/no/such/file.py:Diary", "there is no file"),
        ],
    )
    def test_what_is_none_is_refused_with_where_it_was_written(self, name, says):
        with pytest.raises(InputError, match=says) as refused:
            memory_of(name, "agent_loop.yaml memory")
        assert str(refused.value).startswith("agent_loop.yaml memory: ")

    @pytest.mark.parametrize(("member", "says"), [("Half", "has no render"), ("value", "no class"), ("Other", "Other")])
    def test_what_is_no_memory_in_a_file_is_refused(self, own, member, says):
        with pytest.raises(InputError, match=says):
            memory_of(f"{own}:{member}")

    def test_a_file_is_run_once(self, own):
        assert memory_of(f"{own}:Diary") is memory_of(f"{own}:Diary")

    def test_a_module_on_the_path_is_found(self, tmp_path, monkeypatch):
        (tmp_path / "my_step_memories.py").write_text(OWN)
        monkeypatch.syspath_prepend(str(tmp_path))
        memory = memory_of("my_step_memories:Diary")()
        memory.add(past(1, action="east"))
        assert memory.render("", 9, words) == "east"
        sys.modules.pop("my_step_memories")
