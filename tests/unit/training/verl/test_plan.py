"""What a run is started with, and everything that is wrong with what was asked for, before anything is made."""

import dataclasses
import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_env.cli.main import app
from agent_env.errors import InputError
from agent_env.tokens import TokenSource
from agent_env.training.verl import launch, settings
from agent_env.training.verl.plan import Plan, TrainOptions, checked
from support.tiny_folder import tiny_folder

TURNS = "actor_rollout_ref.rollout.multi_turn"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def options(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return TrainOptions(source="gridsim", model=str(model), run=Path("runs") / "one", seed=3, steps=7)


def problems(options, **changes):
    with pytest.raises(InputError) as caught:
        checked(dataclasses.replace(options, **changes))
    assert not Path("runs").exists()
    return {problem.where: str(problem) for problem in caught.value.problems}


def test_a_plan_holds_the_runs_seed_steps_and_paths(options, tmp_path, model):
    plan = checked(options)
    config, folder = plan.config, tmp_path / "runs" / "one"
    assert config.data.seed == config.actor_rollout_ref.rollout.seed == 3
    assert config.trainer.total_training_steps == 7
    assert config.data.train_files == str(folder / "data" / "train.parquet")
    assert config.actor_rollout_ref.rollout.agent.agent_loop_config_path == str(folder / "data" / "agent_loop.yaml")
    assert config.trainer.default_local_dir == str(folder / "checkpoints")
    assert config.actor_rollout_ref.model.path == str(model)
    assert plan.prompts().max_length == config.data.max_prompt_length
    assert not Path("runs").exists()


def test_everything_wrong_is_said_at_once(options):
    found = problems(
        options,
        source="/no/such/bundle",
        model="/no/such/model",
        recipe="grop",
        profile="laptop",
        steps=0,
        seed=-1,
        overrides=("nonsense", "data.seed=9"),
    )
    assert {"--recipe", "--profile", "nonsense", "data.seed=9", "--steps", "--seed"} <= set(found)
    assert "--model '/no/such/model'" in found
    assert any("/no/such/bundle" in text for text in found.values())
    assert "use one of dapo, dr_grpo, gdpo, gigpo, " in found["--recipe"]


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("chat_template.jinja", "has no chat template"),
        ("config.json", "no config (config.json)"),
        ("model.safetensors", "no weights"),
    ],
)
def test_a_folder_that_is_no_chat_model_is_named(options, model, tmp_path, missing, says):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        if file.name != missing:
            text = file.read_bytes()
            if missing == "chat_template.jinja" and file.name == "tokenizer_config.json":
                config = json.loads(text)
                config.pop("chat_template", None)
                text = json.dumps(config).encode()
            (broken / file.name).write_bytes(text)
    assert any(says in text for text in problems(options, model=str(broken)).values())


def test_a_config_that_transformers_cannot_read_is_named(options, model, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "config.json").write_text('{"model_type": "no_such_model"}')
    found = problems(options, model=str(broken))
    assert any("config.json" in text or "cannot be loaded" in text for text in found.values())


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"source": "http://me:secret@host:1"}, "URL of host"),
        ({"source": "ftp://host"}, "URL 'ftp://host'"),
        ({"source": "http://127.0.0.1:9", "token": TokenSource("NO_SUCH_TOKEN")}, "environment variable NO_SUCH_TOKEN"),
        ({"train_split": "trian"}, "--train-split"),
        ({"attempts": 0}, "--attempts"),
        ({"reset_timeout": 0.5}, "--reset-timeout"),
        ({"eval_split": "dev"}, "--eval-split"),
        ({"overrides": ("no.such.key=1",)}, "verl's settings"),
        ({"overrides": (f"{TURNS}.max_assistant_turns=0",)}, f"{TURNS}.max_assistant_turns=0"),
        ({"overrides": (f"{TURNS}.max_user_turns=0",)}, f"{TURNS}.max_user_turns=0"),
        ({"overrides": ("trainer.val_only=true",)}, "trainer.val_only=true"),
        ({"overrides": ("data.train_batch_size=abc",)}, "data.train_batch_size=abc"),
        ({"overrides": ("data.train_batch_size=null",)}, "data.train_batch_size=null"),
        ({"overrides": ("data.train_batch_size=1",)}, "actor_rollout_ref.actor.ppo_mini_batch_size=2"),
        ({"overrides": ("actor_rollout_ref.rollout.n=two",)}, "actor_rollout_ref.rollout.n=two"),
        ({"overrides": ("actor_rollout_ref.rollout.n=0",)}, "actor_rollout_ref.rollout.n=0"),
        ({"overrides": ("actor_rollout_ref.rollout.n=1",)}, "actor_rollout_ref.rollout.n=1"),
        ({"overrides": ("actor_rollout_ref.rollout.top_p=7",)}, "actor_rollout_ref.rollout.top_p=7"),
        (
            {"overrides": ("actor_rollout_ref.actor.ppo_mini_batch_size=3",)},
            "actor_rollout_ref.actor.ppo_mini_batch_size=3",
        ),
        ({"run": Path("runs") / ("a" * 300)}, "--run"),
        ({"overrides": ("data.max_prompt_length=foo",)}, "data.max_prompt_length=foo"),
        ({"overrides": ("trainer.save_freq=0",)}, "trainer.save_freq=0"),
        ({"overrides": ("actor_rollout_ref.actor.optim.lr=1e-4x",)}, "actor_rollout_ref.actor.optim.lr=1e-4x"),
        ({"overrides": ("algorithm.adv_estimator=foo",)}, "algorithm.adv_estimator=foo"),
        ({"overrides": ("algorithm.adv_estimator=gigpo",)}, "algorithm.adv_estimator=gigpo"),
        ({"overrides": ("trainer.v1.trainer_mode=foo",)}, "trainer.v1.trainer_mode=foo"),
        ({"overrides": ("+trainer.v1.agentenv.from=paper",)}, "trainer.v1.agentenv.from"),
        ({"overrides": ("+trainer.v1.agentenv.credit.gamma=2",)}, "trainer.v1.agentenv.credit.gamma"),
    ],
)
def test_what_cannot_work_is_refused_with_where_it_is(options, changes, where):
    assert where in problems(options, **changes)


def test_all_that_is_wrong_with_the_overrides_comes_at_once(options):
    wrong = ("data.seed=4", f"{TURNS}.max_user_turns=0", "data.train_batch_size=0", "algorithm.adv_estimator=foo")
    assert problems(options, overrides=wrong).keys() == set(wrong)


@pytest.mark.parametrize(
    "overrides",
    [
        ("algorithm.adv_estimator=reinforce_plus_plus",),
        ("algorithm.adv_estimator=gigpo", "trainer.v1.trainer_mode=sync"),
        ("algorithm.adv_estimator=rloo", "trainer.v1.trainer_mode=agentenv_colocate_async"),
        ("trainer.test_freq=-1", "actor_rollout_ref.rollout.temperature=0.7", f"{TURNS}.max_user_turns=null"),
    ],
)
def test_verls_own_estimators_and_values_go_through(options, overrides):
    if "algorithm.adv_estimator=gigpo" in overrides:  # with verl's own trainer, which does not know it
        found = problems(options, overrides=overrides, context="steps")
        assert "leave trainer.v1.trainer_mode at agentenv_sync" in found["algorithm.adv_estimator=gigpo"]
    else:
        checked(dataclasses.replace(options, overrides=overrides))


def test_a_library_that_the_user_has_verl_import_may_bring_estimators_of_its_own(options, monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "my_estimators")
    checked(dataclasses.replace(options, overrides=("algorithm.adv_estimator=mine",)))


def test_an_environment_that_keeps_verl_from_the_plugin_is_named(options, monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    assert "VERL_USE_EXTERNAL_PLUGINS" in problems(options)
    checked(dataclasses.replace(options, profile="one_gpu"))  # which does not need it
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "other, agent_env")
    checked(options)


def commands(text):
    """The commands of a dry run by their comment's number."""
    parts = text.split("# ")[1:]
    return [shlex.split(part.split("\n", 1)[1].replace("\\\n", " ")) for part in parts]


def test_a_dry_run_prints_commands_that_need_nothing_of_ours(options, tmp_path, model):
    asked = dataclasses.replace(options, overrides=("actor_rollout_ref.rollout.n=3",), attempts=2, reset_timeout=50)
    text = launch.dry_run(asked)
    serve, write, train = commands(text)
    assert serve[1:5] == ["-m", "agent_env.cli.main", "serve", "gridsim"]
    assert write[1:4] == ["-m", "agent_env.training.verl", "http://127.0.0.1:8000"]
    assert write[4] == str(tmp_path / "runs" / "one" / "data")
    assert write[write.index("--tokenizer") + 1] == str(model)
    assert write[write.index("--attempts") :][:4] == ["--attempts", "2", "--reset-timeout", "50"]
    start = train.index(sys.executable)
    variables, arguments = train[:start], train[start + 3 :]
    assert variables[0] == "env"
    assert {"VERL_PLATFORM=cpu", f"VERL_FILE_LOGGER_PATH={tmp_path}/runs/one/metrics.jsonl"} <= set(variables)
    assert train[start : start + 3] == [sys.executable, "-m", "verl.trainer.main_ppo"]
    config = settings.compose(settings.parse_overrides(arguments, [], owned={}))
    assert (config.actor_rollout_ref.rollout.n, config.trainer.resume_mode) == (3, "disable")
    assert not Path("runs").exists()


def test_a_dry_run_on_a_server_names_its_token(options, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    asked = dataclasses.replace(options, source="http://host:1", token=TokenSource("TOKEN"), profile="one_gpu")
    text = launch.dry_run(asked)
    write, _ = commands(text)
    assert write[write.index("--token-var") + 1] == "TOKEN"
    assert json.loads(write[write.index("--chat-template-kwargs") + 1]) == {"enable_thinking": False}
    assert "secret" not in text


@pytest.mark.parametrize(("step", "evaluated", "evaluates"), [(20, False, True), (20, True, False), (30, False, False)])
def test_a_run_that_goes_on_repeats_no_evaluation_and_misses_none(options, step, evaluated, evaluates):
    plan = checked(dataclasses.replace(options, steps=60))
    plan.folder.path.mkdir(parents=True)
    data = {"val-core/agentenv/gridsim/reward/mean@1": 0.5} if evaluated else {"critic/score/mean": 0.5}
    plan.folder.metrics.write_text(json.dumps({"step": step, "data": data}) + "\n")
    start = launch._next_start(plan, plan.folder.checkpoints / f"global_step_{step}")
    assert start.arguments["trainer.resume_from_path"].endswith(f"runs/one/checkpoints/global_step_{step}")
    assert start.arguments["trainer.val_before_train"] == f"trainer.val_before_train={str(evaluates).lower()}"
    assert start.env["VERL_FILE_LOGGER_PATH"].endswith(f"metrics.from{step}.jsonl")


def test_a_server_has_sessions_for_all_rollouts_of_a_step_and_most_of_an_evaluation(options):
    plan = checked(options)
    assert isinstance(plan, Plan)
    assert plan.sessions(eval_tasks=10) == 64
    assert plan.sessions(eval_tasks=200) == 200
    assert plan.sessions(eval_tasks=10_000) == 256
    big = checked(dataclasses.replace(options, overrides=("data.train_batch_size=64",)))
    assert big.sessions(eval_tasks=10) == 2 * 64 * 8


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "gridsim"],
        ["train", "gridsim", "--model", "m", "--run", "a/b"],
        ["train", "x", "--model", "m", "--run", "r"],
    ],
)
def test_the_command_answers_bad_input_with_its_problems(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert list(tmp_path.iterdir()) == []


class TestStepLayout:
    def test_a_template_that_does_not_append_will_do(self, options, model, tmp_path):
        forgetful = tmp_path / "forgetful"
        shutil.copytree(model, forgetful)
        said = "{% for m in messages[-2:] %}{{ m.content }}<|im_end|>{% endfor %}"
        (forgetful / "chat_template.jinja").write_text(said)
        (told,) = problems(options, model=str(forgetful)).values()
        assert "--context steps" in told
        checked(dataclasses.replace(options, model=str(forgetful), context="steps"))

    def test_a_run_of_it_names_its_loop_everywhere(self, options, tmp_path):
        steps = ("max_steps=9", "memory=full")
        plan = checked(dataclasses.replace(options, context="steps", step_options=steps))
        assert plan.config.actor_rollout_ref.rollout.agent.default_agent_loop == "agentenv_steps"
        loop = plan.loop()
        assert (loop.context, loop.step_options) == ("steps", {"max_steps": 9, "memory": "full"})
        assert loop.bundle is not None
        assert loop.bundle.name == "gridsim"
        assert plan.options.identity()["context"] == "steps"
        assert plan.options.identity()["step_options"] == list(steps)
        assert checked(options).config.actor_rollout_ref.rollout.agent.default_agent_loop == "agentenv"

    def test_a_dry_run_writes_its_rows(self, options):
        text = launch.dry_run(dataclasses.replace(options, context="steps", step_options=("memory=full",)))
        _, write, _ = commands(text)
        assert write[write.index("--context") + 1] == "steps"
        assert write[write.index("--step") + 1] == "memory=full"
        assert write[write.index("--bundle") + 1].endswith("gridsim")

    def test_everything_wrong_with_it_is_said_at_once(self, options):
        typed = ("max_stpes=9", "memory=recnt", "invalid_penalty=x", "max_step_tokens=0")
        assert list(problems(options, context="steps", step_options=typed)) == [
            "max_stpes=9",
            "invalid_penalty=x",
            "memory",
            "max_step_tokens",
        ]
        assert list(problems(options, context="stpes", step_options=typed[:1])) == ["max_stpes=9", "--context"]

    @pytest.mark.parametrize(
        ("changes", "where"),
        [
            ({"context": "stpes"}, "--context"),
            ({"step_options": ("memory=full",)}, "--step memory"),
            ({"context": "steps", "step_options": ("memory=recnt",)}, "memory"),
            ({"context": "steps", "step_options": ("max_steps=x",)}, "max_steps=x"),
        ],
    )
    def test_what_cannot_work_is_refused(self, options, changes, where):
        assert where in problems(options, **changes)


def test_a_recipe_brings_its_layout_and_refuses_another(options):
    assert checked(dataclasses.replace(options, recipe="gigpo")).options.layout == "steps"
    assert checked(dataclasses.replace(options, context="steps")).options.layout == "steps"
    assert checked(options).options.layout == "conversation"
    told = problems(options, recipe="gigpo", context="conversation")
    assert "'conversation' cannot be trained with recipe 'gigpo', which needs 'steps'" in told["--context"]
