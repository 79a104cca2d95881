"""A demonstration as steps: the prompt that the step loop would make of each, and what is learned of it."""

import re

import pytest

from agent_env import load_bundle
from agent_env.errors import InputError
from agent_env.training.step_options import StepOptions
from agent_env.training.tasks import END_TURN_TOOL
from agent_env.training.tiny.conversations import text_of, tokens_of
from agent_env.training.tiny.plays import plays
from agent_env.training.tiny.steps import LONGEST, demonstrated_steps
from agent_env.training.tiny.tokenizer import blank_tokenizer, learn_tokenizer
from support.bundles import TOML, jsonl, task, write_bundle

HALL = """
from agent_env import Observation, TextEnvironment


class Hall(TextEnvironment):
    def reset(self, task, seed):
        self.at, self.words = 0, task.env.get("words", 0)
        return self.seen("You wake up.")

    def step(self, action):
        self.at += {"go east": 1, "go west": -1}.get(action, 0)
        return self.seen(f"You did {action}.")

    def seen(self, text):
        stones = "7 " * self.words
        return Observation(f"{text} {stones}Cell {self.at}.", actions=("go east", "go west"), terminated=self.at == 3)

    def score(self, reply):
        return float(self.at == 3)
"""
WALKER = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    for action in ("go east", "dance", "go east", "go east"):
        yield Call("act", {"action": action})
    yield Reply("done")
"""
COUNTER = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    first = yield [Call("add", {"amount": 2}), Call("add", {"amount": 0})]
    yield Call("add", {"amount": 3})
    yield Reply(f"{len(first)} answers")
"""


def hall(folder, *tasks, walker=WALKER):
    toml = TOML.replace("Counter", "Hall") + 'reward = "count"\n'
    files = {"bundle.toml": toml, "env.py": HALL, "demonstrator.py": walker, "tasks/train.jsonl": jsonl(*tasks)}
    return load_bundle(write_bundle(folder, files))


def steps_of(bundle, tokenizer=None, **options):
    played = plays(bundle, "train", times=1, error_rate=0.0, seed=0, progress=lambda *_: None)
    return demonstrated_steps(bundle, played, StepOptions(**options), tokenizer or blank_tokenizer())


def walk(folder):
    return hall(
        folder, task(system_prompt="You walk.", turns=[{"id": "count", "prompt": "Go.", "verifier": {"type": "env"}}])
    )


class TestText:
    def test_a_step_is_a_fresh_prompt_and_an_action(self, tmp_path):
        steps = steps_of(walk(tmp_path), memory="recent(1)")
        assert [step.messages[-1] for step in steps] == [
            {"role": "assistant", "content": f"<action>{action}</action>"}
            for action in ("go east", "dance", "go east", "go east")
        ]
        assert {step.messages[0]["content"] for step in steps} == {"You walk."}
        assert {(step.task, step.tools, step.reward, len(step.messages)) for step in steps} == {("t1", (), 1.0, 3)}
        asked = "Possible actions: go east, go west\nSteps left: {}\nWrite your next action as <action>...</action>"
        assert steps[0].messages[1] == {"role": "user", "content": "Go.\n\nYou wake up. Cell 0.\n\n" + asked.format(50)}
        assert steps[2].messages[1]["content"] == (
            "Go.\n\nWhat happened before:\n\nStep 2\nObservation: You did go east. Cell 1.\nAction: dance\n\n"
            "What you see now:\n\nYou did dance. Cell 1.\n\n" + asked.format(48)
        )

    def test_steps_after_the_most_are_left_out(self, tmp_path):
        assert len(steps_of(walk(tmp_path), max_steps=3)) == 3

    def test_nothing_is_learned_after_the_environments_end(self, tmp_path):
        further = WALKER.replace('("go east", "dance", ', '("go east", "go east", "go east", ')
        bundle = hall(tmp_path, task(), walker=further)
        assert [step.messages[-1]["content"] for step in steps_of(bundle)] == ["<action>go east</action>"] * 3

    def test_the_action_is_learned_and_nothing_else(self, tmp_path):
        steps = steps_of(walk(tmp_path))
        tokenizer = learn_tokenizer([text_of(step, blank_tokenizer()) for step in steps])
        for step, tokens in zip(steps, tokens_of(steps, tokenizer), strict=True):
            said = sum(tokens.mask)
            assert tokens.mask == (False,) * (len(tokens.ids) - said) + (True,) * said
            assert tokenizer.decode(tokens.ids[-said:]) == step.messages[-1]["content"] + "<|im_end|>"
            prompt = tokenizer.apply_chat_template(
                list(step.messages[:-1]), add_generation_prompt=True, return_dict=False
            )
            assert list(tokens.ids[:-said]) == prompt

    def test_memory_gives_way_to_the_limit_before_the_observation(self, tmp_path):
        # 300 numbers are a token each: three past observations have 900, and task, template and observation the rest.
        words = hall(tmp_path, task(env={"words": 300}))
        tokenizer = learn_tokenizer([text_of(step, blank_tokenizer()) for step in steps_of(words)])
        *_, last = steps_of(words, tokenizer, memory="full")
        assert "(the first 1 of 3 steps are left out)" in last.messages[-2]["content"]
        assert "Step 1" not in last.messages[-2]["content"]
        (tokens,) = tokens_of([last], tokenizer)
        assert LONGEST - 300 < len(tokens.ids) - sum(tokens.mask) <= LONGEST

    def test_an_observation_that_is_too_long_loses_its_middle(self, tmp_path):
        long = hall(tmp_path, task(env={"words": 3000}))
        tokenizer = learn_tokenizer([text_of(step, blank_tokenizer()) for step in steps_of(long, memory="none")])
        for step, tokens in zip(steps := steps_of(long, tokenizer), tokens_of(steps, tokenizer), strict=True):
            assert re.search(r"\[\.\.\. \d+ characters left out \.\.\.\]", step.messages[-2]["content"])
            assert len(tokens.ids) - sum(tokens.mask) <= LONGEST

    def test_a_task_that_is_too_long_is_named(self, tmp_path):
        bundle = hall(tmp_path, task("wordy", system_prompt=" ".join(["7"] * 2000)))
        with pytest.raises(InputError, match=r"task 'wordy': step 1: .* tokens, over 1024"):
            steps_of(bundle, learn_tokenizer(["7"]))

    @pytest.mark.parametrize(
        ("move", "message"),
        [
            (
                '[Call("act", {"action": "go east"}), Call("act", {"action": "dance"})]',
                "2 calls at once, and a step is",
            ),
            ('Call("act", {"action": "go  east"})', "cannot be written as <action>go  east</action>"),
            ('Call("act", {"action": ""})', "cannot be written as <action></action>"),
            ('Call("act", {"direction": "east"})', "cannot be written as <action>None</action>"),
            ('Call("walk", {"action": "go east"})', r"walk\(.*cannot be written"),
        ],
    )
    def test_a_move_without_a_reply_is_refused(self, tmp_path, move, message):
        walker = WALKER[: WALKER.index("    for")] + f"    yield {move}\n    yield Reply('done')\n"
        with pytest.raises(InputError, match=f"task 't1': the demonstrator.*{message}"):
            steps_of(hall(tmp_path, task(), walker=walker))


class TestTools:
    @pytest.fixture
    def bundle(self, tmp_path):
        turns = [
            {"id": "count", "prompt": "Bring it to 5.", "verifier": {"type": "env"}},
            {"id": "say", "prompt": "How many answers?", "verifier": {"type": "contains", "text": "2"}},
        ]
        toml = TOML + 'reward = "mean"\n'
        tasks = jsonl(task(turns=turns))
        return load_bundle(
            write_bundle(tmp_path, {"demonstrator.py": COUNTER, "tasks/train.jsonl": tasks, "bundle.toml": toml})
        )

    def test_calls_made_at_once_are_a_step_and_so_is_the_reply_that_ends_a_turn(self, bundle):
        steps = steps_of(bundle, memory="recent(1)")
        assert len(steps) == 6
        prompts = [step.messages[0]["content"] for step in steps]
        said = [step.messages[1] for step in steps]
        assert prompts[0] == "Bring it to 5.\n\nThe counter shows 0.\n\nSteps left: 50"
        assert [call["function"] for call in said[0]["tool_calls"]] == [
            {"name": "add", "arguments": {"amount": 2}},
            {"name": "add", "arguments": {"amount": 0}},
        ]
        assert prompts[1] == (
            "Bring it to 5.\n\nWhat happened before:\n\nStep 1\nObservation: The counter shows 0.\n"
            'Action: add({"amount": 2})\nadd({"amount": 0})\n\nWhat you see now:\n\n'
            "add: The counter shows 2.\nadd: amount: adding 0 does nothing\n\nSteps left: 49"
        )
        assert prompts[2].endswith("What you see now:\n\nThe counter shows 5.\n\nSteps left: 48")
        # Whichever turn it is, a plain reply ends it.
        assert said[2] == said[5] == {"role": "assistant", "content": "2 answers"}
        assert prompts[3] == (
            "How many answers?\n\nWhat happened before:\n\nStep 3\nObservation: The counter shows 5.\n"
            "Action: 2 answers\n\nWhat you see now:\n\nSteps left: 47"
        )
        assert prompts[4].endswith("add: The counter shows 7.\nadd: amount: adding 0 does nothing\n\nSteps left: 46")

    def test_the_tools_are_those_of_the_conversation(self, bundle):
        spec = [tool.openai() for tool in bundle.toolset(bundle.tasks("train")[0]).tools]
        assert {len(step.tools) for step in steps_of(bundle)} == {2}
        assert list(steps_of(bundle)[0].tools) == [*spec, END_TURN_TOOL]

    def test_what_is_learned(self, bundle):
        steps = steps_of(bundle)
        tokenizer = learn_tokenizer([text_of(step, blank_tokenizer()) for step in steps])
        said = [
            tokenizer.decode([token for token, mine in zip(tokens.ids, tokens.mask, strict=True) if mine])
            for tokens in tokens_of(steps, tokenizer)
        ]
        assert said[:3] == [
            '<tool_call>\n{"name": "add", "arguments": {"amount": 2}}\n</tool_call>\n'
            '<tool_call>\n{"name": "add", "arguments": {"amount": 0}}\n</tool_call><|im_end|>',
            '<tool_call>\n{"name": "add", "arguments": {"amount": 3}}\n</tool_call><|im_end|>',
            "2 answers<|im_end|>",
        ]


LIBRARY = """
from agent_env import Environment, tool


class Library(Environment):
    def reset(self, task, seed):
        pass

    @tool
    def find(self, words: str) -> str:
        return f"Found {words}."

    def score(self, reply):
        return float(reply == "Paris")
"""
READER = """
from agent_env.demonstrator import Call, Reply


def demonstrate(turn, rng, error_rate):
    yield Call("find", {"words": "capital of France"})
    yield Reply("Paris")
"""


class TestTags:
    @pytest.fixture
    def library(self, tmp_path):
        toml = TOML.replace("Counter", "Library") + '[steps]\ntags = {find = "find", answer = "end_turn"}\n'
        files = {"bundle.toml": toml, "env.py": LIBRARY, "demonstrator.py": READER}
        return lambda reader=READER: load_bundle(write_bundle(tmp_path, files | {"demonstrator.py": reader}))

    def test_calls_and_replies_are_written_in_their_tags(self, library):
        bundle = library()
        steps = steps_of(bundle, tags=bundle.steps.tags)
        assert [step.messages[-1]["content"] for step in steps] == [
            "<find>capital of France</find>",
            "<answer>Paris</answer>",
        ]
        assert {step.tools for step in steps} == {()}
        assert steps[1].messages[0]["content"] == (
            "Bring the counter to 5.\n\nWhat happened before:\n\nStep 1\nObservation: \n"
            "Action: <find>capital of France</find>\n\nWhat you see now:\n\nFound capital of France.\n\n"
            "Steps left: 49\nWrite your next action as <find>...</find> or <answer>...</answer>"
        )

    def test_a_reply_that_cannot_be_written_is_refused(self, library):
        bundle = library(READER.replace('"Paris"', '" Paris"'))
        with pytest.raises(InputError, match="the demonstrator's reply ' Paris' cannot be written as <answer> Paris"):
            steps_of(bundle, tags=bundle.steps.tags)
