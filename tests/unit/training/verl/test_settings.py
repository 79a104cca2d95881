"""Layers of settings: what wins, how values are written for hydra, and what is refused."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from agent_env.errors import InputError
from agent_env.training.credit import ESTIMATORS
from agent_env.training.verl import settings
from agent_env.training.verl.settings import Settings

PARSER = OverridesParser.create()


def merged(*overrides, profile="cpu", recipe="grpo"):
    layers = settings.defaults().over(settings.load("profile", profile)).over(settings.load("recipe", recipe))
    return layers.over(settings.parse_overrides(overrides, [], owned={}))


@pytest.mark.parametrize(
    ("profile", "recipe"),
    [("cpu", recipe) for recipe in settings.available("recipe")]
    + [(profile, "gigpo_lora") for profile in settings.available("profile") if profile != "cpu"],
)
def test_every_recipe_and_profile_is_a_configuration_of_verls(profile, recipe):
    config = settings.compose(merged(profile=profile, recipe=recipe))
    assert config.actor_rollout_ref.rollout.agent.default_agent_loop == "agentenv"
    assert config.trainer.v1.sampler.sampler_kwargs.rollouts == config.actor_rollout_ref.rollout.n > 1


def test_a_later_layer_wins_whatever_marks_its_key():
    ours = merged("actor_rollout_ref.rollout.n=3", "ray_kwargs.ray_init.num_gpus=2", "++ray_kwargs.ray_init.num_cpus=4")
    assert sum("ray_init.num_gpus" in argument for argument in ours.command()) == 1
    config = settings.compose(ours)
    assert config.actor_rollout_ref.rollout.n == 3
    assert (config.ray_kwargs.ray_init.num_gpus, config.ray_kwargs.ray_init.num_cpus) == (2, 4)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).filter(lambda text: "${" not in text))
def test_any_text_reaches_verl_as_it_is(text):
    value = PARSER.parse_override(f"key={settings.written(text)}").value()
    assert str(value) == text
    assert not isinstance(value, bool | int | float)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (3e-4, "0.0003"),
        ([1, "a b"], "[1,'a b']"),
        ({"a": [True]}, "{a:[true]}"),
    ],
)
def test_values_are_written_as_hydra_reads_them(value, text):
    assert settings.written(value) == text
    PARSER.parse_override(f"key={text}")


def test_what_is_no_value_is_refused():
    with pytest.raises(InputError, match="cannot hold"):
        settings.written(object())


def test_the_shell_command_is_the_command(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    ours = Settings({"a": "a=b c", "d": "+d=${e.f}"}, {"ONE": "it's", "RAY_ADDRESS": None})
    words = shlex.split(ours.shell().replace("\\\n", " "))
    assert words == ["env", "-u", "RAY_ADDRESS", "ONE=it's", *ours.command()]
    assert ours.environment()["ONE"] == "it's"
    assert "RAY_ADDRESS" not in ours.environment()


def test_overrides_that_are_none_and_keys_with_an_owner_are_all_named():
    wrong = ["steps", "a b=3", "~trainer.x=1", "data.seed=4", "trainer.test_freq=5", "~data.tokenizer"]
    problems = []
    usable = settings.parse_overrides(wrong, problems, owned={"data.seed": "use --seed"})
    assert [problem.where for problem in problems] == ["steps", "a b=3", "~trainer.x=1", "data.seed=4"]
    assert problems[3].fix == "use --seed"
    assert usable.arguments == {"trainer.test_freq": "trainer.test_freq=5", "data.tokenizer": "~data.tokenizer"}


@pytest.mark.parametrize(
    "argument", ["trainer.no_such_key=1", "actor_rollout_ref.rollout.n=[1", "model_engine=nothing"]
)
def test_what_hydra_refuses_is_an_input_error(argument):
    with pytest.raises(InputError, match="verl's settings"):
        settings.compose(merged(argument))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="cluster, cpu, cpu_vllm, one_gpu"):
        settings.load("profile", "laptop")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("- a list", ["is no mapping"]),
        ("overrides: [", ["cannot be read"]),
        ("overide: {}\nenviron: {}", ["has no part 'environ'", "has no part 'overide'"]),
        ("overrides: 3\nenv: [x]", ["overrides: is no mapping", "env: is no mapping"]),
        ("overrides: {'~a': 1, 'b=2': 3}\nenv: {A: 1}", ["~a", "b=2", "env: A"]),
        ("extends: laptop\nmore: 1", ["has no part 'more'", "extends: there is no 'laptop'"]),
    ],
)
def test_a_file_that_is_no_layer_is_answered_with_all_that_is_wrong(tmp_path, text, problems):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        settings.load("recipe", str(path))
    assert len(caught.value.problems) == len(problems)
    for problem in problems:
        assert problem in str(caught.value)


def test_a_recipe_may_be_a_file_of_the_users(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("about: mine\noverrides:\n  trainer.save_freq: 7\nenv:\n  A: null\n")
    assert settings.load("recipe", str(path)) == Settings({"trainer.save_freq": "trainer.save_freq=7"}, {"A": None})


def test_a_layer_over_another_one_keeps_what_it_does_not_say(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: cpu\noverrides:\n  ray_kwargs.ray_init.num_gpus: 2\nenv:\n  VERL_PLATFORM: mine\n")
    ours, cpu = settings.load("profile", str(path)), settings.load("profile", "cpu")
    changed = {"ray_kwargs.ray_init.num_gpus": "+ray_kwargs.ray_init.num_gpus=2"}
    assert ours == Settings({**cpu.arguments, **changed}, {**cpu.env, "VERL_PLATFORM": "mine"})


def test_what_a_recipe_is_and_the_layout_it_is_for():
    assert settings.about("recipe", "grpo") == (
        "GRPO: advantages relative to the other rollouts of the same task",
        None,
    )
    assert settings.about("recipe", "gigpo")[1] == "steps"
    assert settings.about("recipe", "gigpo_lora")[1] == "steps"  # as the one it extends


def test_a_layout_that_there_is_not_is_refused(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("extends: grpo\ncontext: stepwise\n")
    with pytest.raises(InputError, match=r"there is no layout 'stepwise'.*conversation, steps"):
        settings.load("recipe", str(own))


@pytest.mark.parametrize("recipe", settings.available("recipe"))
def test_a_recipes_estimator_takes_its_options(recipe):
    config = settings.compose(merged(recipe=recipe))
    estimator = ESTIMATORS[config.algorithm.adv_estimator]
    options = config.trainer.v1.get("agentenv", {}).get("credit", {})
    assert set(options) <= set(estimator.options)
