"""Rows and the loop's configuration for the step layout."""

import sys

import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from agent_env.bundle import load_bundle
from agent_env.errors import InputError
from agent_env.openenv import build_app
from agent_env.step_prompt import StepPrompt, View
from agent_env.training.shared import Shared
from agent_env.training.verl.__main__ import main
from agent_env.training.verl.writer import LoopOptions, PromptOptions, write
from support.bundles import ENV, TOML, write_bundle
from support.inprocess import running
from support.tokenizers import save_tokenizer

TEXT_ENV = """
from agent_env import Observation, TextEnvironment


class Counter(TextEnvironment):
    def reset(self, task, seed):
        return Observation("0")

    def step(self, action):
        return Observation(action)

    def score(self, reply):
        return 1.0
"""
TEMPLATE = "${one} \\${two} $ {three} {{ task }}: {{ observation }} é"


@pytest.fixture
def text(tmp_path):
    """A text environment with a template of its own, served."""
    files = {"env.py": TEXT_ENV, "step_prompt.md": TEMPLATE}
    with running(build_app(load_bundle(write_bundle(tmp_path / "text", files)))) as server:
        yield server


@pytest.fixture
def tools(tmp_path):
    with running(build_app(load_bundle(write_bundle(tmp_path / "tools", {"env.py": ENV})))) as server:
        yield server


def written(server, out, **options):
    write(Shared(server.url), out, loop=LoopOptions(context="steps", **options))
    (entry,) = OmegaConf.load(out / "agent_loop.yaml")
    return entry


def test_a_row_and_the_configuration_name_the_loop(text, tmp_path):
    entry = written(text, tmp_path / "data", step_options={"max_steps": 9, "invalid": "either"})
    assert entry.name == "agentenv_steps"
    assert entry._target_ == "agent_env.training.verl.steps.AgentEnvStepLoop"
    assert (entry.max_steps, entry.invalid, entry.memory, entry.truncated) == (9, "either", "recent(2)", "score")
    (row,) = pq.read_table(tmp_path / "data" / "train.parquet").to_pylist()
    assert row["agent_name"] == "agentenv_steps"
    assert row["prompt"] == [{"role": "user", "content": "Bring the counter to 5."}]
    assert row["data_source"] == "agentenv/counter"


def test_a_template_comes_through_omegaconf_as_it_was_written(text, tmp_path):
    entry = written(text, tmp_path / "data")
    # As a loop gets it: copied, merged and resolved.
    again = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create({"a": 1}), entry), resolve=True)
    assert "".join(again["step_prompt"]) == TEMPLATE


def test_a_bundles_tags_come_through_omegaconf(tmp_path):
    toml = TOML + '[steps]\ntags = {amount = "say", answer = "end_turn"}\n'
    env = ENV + "\n    @tool\n    def say(self, text: str) -> str:\n        return text\n"
    bundle = load_bundle(write_bundle(tmp_path / "tags", {"env.py": env, "bundle.toml": toml}))
    with running(build_app(bundle)) as server:
        entry = written(server, tmp_path / "data")
    assert OmegaConf.to_container(entry, resolve=True)["tags"] == {"amount": "say", "answer": "end_turn"}


def test_prompts_are_counted_as_the_first_step_shows_them(text, tools, tmp_path):
    model = save_tokenizer(tmp_path / "model")
    counted = {}
    for name, server in (("text", text), ("tools", tools)):
        for context in ("steps", "conversation"):
            loop, prompts = LoopOptions(context=context), PromptOptions(str(model))
            made = write(Shared(server.url), tmp_path / f"{name}-{context}", loop=loop, prompts=prompts)
            counted[name, context] = made.longest_prompt
    from transformers import AutoTokenizer

    message = StepPrompt(TEMPLATE).render(View("Bring the counter to 5.", "", 1, 50))
    tokenizer = AutoTokenizer.from_pretrained(model)
    text_of = tokenizer.apply_chat_template(
        [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
    )
    assert counted["text", "steps"] == len(tokenizer(text_of, add_special_tokens=False)["input_ids"])
    # A text environment's one tool is not shown; another's tools are, and the template adds to the task.
    assert counted["text", "steps"] < counted["text", "conversation"]
    assert counted["tools", "steps"] > counted["tools", "conversation"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (LoopOptions(context="stpes"), "--context: expected conversation or steps, got 'stpes'"),
        (LoopOptions(step_options={"memory": "none"}), "--step memory: is of the step layout"),
        (LoopOptions(context="steps", step_options={"memory": "recnt"}), "there is no memory 'recnt'"),
        (LoopOptions(context="steps", step_options={"memry": "none"}), "did you mean 'memory'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_server_is_read(tmp_path, options, says):
    with pytest.raises(InputError, match="attempts") as refused:
        write(Shared("http://127.0.0.1:9"), tmp_path / "data", loop=LoopOptions(**{**vars(options), "attempts": 0}))
    assert says in str(refused.value)


class TestCommand:
    @pytest.fixture
    def run(self, monkeypatch, capsys):
        def command(*arguments):
            monkeypatch.setattr(sys, "argv", ["python -m agent_env.training.verl", *arguments])
            try:
                main()
                return 0, ""
            except SystemExit as ended:
                return ended.code or 0, capsys.readouterr().err

        return command

    def test_options_are_typed(self, text, tmp_path, run):
        own = tmp_path / "own.md"
        own.write_text("Mine: {{ observation }}")
        options = ["--step", "memory=summary(99)", "--step", f"step_prompt={own}", "--step", "invalid_penalty=0"]
        assert run(text.url, str(tmp_path / "data"), "--context", "steps", *options)[0] == 0
        (entry,) = OmegaConf.load(tmp_path / "data" / "agent_loop.yaml")
        assert (entry.memory, entry.step_prompt, entry.invalid_penalty) == ("summary(99)", "Mine: {{ observation }}", 0)

    def test_all_that_is_wrong_is_said_with_status_2(self, tmp_path, run):
        typed = ["--context", "steps", "--step", "max_steps=x", "--step", "memory=recnt", "--attempts", "0"]
        status, said = run("ftp://x", str(tmp_path / "data"), *typed)
        assert status == 2
        assert "ftp://x" in said
        assert "max_steps=x: " in said
        assert said.count("there is no memory 'recnt'") == 1
        assert "--attempts" in said
