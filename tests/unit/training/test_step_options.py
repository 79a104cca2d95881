"""The options of the step layout: their values, a user's words for them, a bundle's and a user's together."""

import pytest

from agent_env import load_bundle
from agent_env.errors import InputError
from agent_env.openenv import build_app
from agent_env.training.shared import Shared
from agent_env.training.step_layout import combined, step_options
from agent_env.training.step_options import StepOptions, parse_options
from support.bundles import write_bundle
from support.inprocess import running


def problems(call):
    with pytest.raises(InputError) as refused:
        call()
    return [str(problem) for problem in refused.value.problems]


def test_what_a_user_types():
    typed = ["max_steps=9", "invalid_penalty=0", "remember_thoughts=true", "max_step_tokens=null", "memory=recent(4)"]
    assert parse_options([*typed, "invalid=either"]) == {
        "max_steps": 9,
        "invalid_penalty": 0.0,
        "remember_thoughts": True,
        "max_step_tokens": None,
        "memory": "recent(4)",
        "invalid": "either",
    }
    assert parse_options([]) == {}


def test_a_template_is_typed_as_its_file(tmp_path):
    (tmp_path / "own.md").write_text("{{ observation }} = 1")
    assert parse_options([f"step_prompt={tmp_path}/own.md"]) == {"step_prompt": "{{ observation }} = 1"}


def test_everything_wrong_with_what_is_typed():
    found = problems(
        lambda: parse_options(["max_stpes=9", "max_steps", "max_steps=few", "step_prompt=/no/such", "invalid=x"])
    )
    assert found[0] == "max_stpes=9: is no option of the step layout (did you mean 'max_steps'?)"
    assert found[1] == "max_steps: is no option of the step layout (write NAME=VALUE)"
    assert [problem.split(":")[0] for problem in found[2:]] == ["max_steps=few", "step_prompt=/no/such", "invalid=x"]


def test_everything_wrong_with_the_values():
    found = problems(
        lambda: StepOptions(
            step_prompt="{{ x }}", memory="recnt", max_steps=0, max_step_tokens=-1, invalid_penalty=-0.1
        )
    )
    assert [problem.split(":")[0] for problem in found] == [
        "step_prompt",
        "step_prompt",
        "memory",
        "max_steps",
        "max_step_tokens",
        "invalid_penalty",
    ]
    assert problems(lambda: StepOptions(max_steps="9")) == ["max_steps: Expected `int`, got `str`"]
    assert problems(lambda: StepOptions(invalid_penalty=float("nan"))) == [
        "invalid_penalty: expected 0 or more, got nan"
    ]
    assert "did you mean 'memory'" in problems(lambda: StepOptions().with_({"memry": "none"}))[0]


class TestOfABundle:
    @pytest.fixture
    def folder(self, tmp_path):
        diary = (
            "class Diary:\n    def add(self, past): ...\n    def render(self, observation, budget, size): return ''\n"
        )
        files = {"step_prompt.md": "Own: {{ observation }}", "diary.py": diary}
        folder = write_bundle(tmp_path / "own", files)
        with (folder / "bundle.toml").open("a") as toml:
            toml.write('\n[steps]\nmemory = "diary:Diary"\nmax_steps = 7\ntags = {answer = "end_turn"}\n')
        return folder

    @pytest.fixture
    def server(self, folder):
        with running(build_app(load_bundle(folder))) as server:
            yield Shared(server.url)

    async def test_its_own_win_over_the_defaults_and_a_users_over_them(self, server, folder):
        options = await step_options(server, {"max_steps": 3}, folder)
        assert options == StepOptions(
            step_prompt="Own: {{ observation }}",
            tags={"answer": "end_turn"},
            memory=f"{folder.resolve()}/diary.py:Diary",
            max_steps=3,
        )

    async def test_a_user_may_do_without_its_tags(self, server):
        assert (await step_options(server, parse_options(["tags=null", "memory=none"]))).tags is None

    async def test_a_memory_that_is_not_here_is_not_imported(self, server):
        with pytest.raises(InputError, match="diary:Diary, is not on this machine"):
            await step_options(server, {})
        assert (await step_options(server, {"memory": "full"})).memory == "full"

    @pytest.mark.parametrize("name", ["{outside}", "..outside", "linked"])
    def test_a_server_cannot_name_a_file_outside_the_bundle(self, folder, tmp_path, name):
        outside = tmp_path / "outside"
        outside.with_suffix(".py").write_text("raise SystemExit('was run')")
        (folder / "linked.py").symlink_to(outside.with_suffix(".py"))
        said = {"bundle": "own", "memory": f"{name.format(outside=outside)}:Diary"}
        with pytest.raises(InputError, match="is not on this machine"):
            combined([said], {}, folder)

    async def test_bundles_that_differ_need_a_choice(self, folder, tmp_path):
        plain = load_bundle(write_bundle(tmp_path / "plain"))
        with running(build_app({"train": load_bundle(folder), "eval": plain})) as server:
            shared = Shared(server.url)
            with pytest.raises(InputError, match=r"step_prompt: differs between the bundles"):
                await step_options(shared, {})
            own = {"step_prompt": None, "tags": None, "memory": "none", "max_steps": 5}
            assert await step_options(shared, own) == StepOptions(**own)

    async def test_a_server_that_says_nothing_of_it(self, tmp_path):
        with running(build_app(load_bundle(write_bundle(tmp_path / "plain")))) as server:
            assert await step_options(Shared(server.url), {}) == StepOptions()
