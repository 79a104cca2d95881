"""Which layout a model was trained in, from what lies beside it."""

import pytest

from agent_env.training.model_layout import known_layout, mismatch


@pytest.fixture
def warm(tmp_path):
    (tmp_path / "warm_start.json").write_text('{"bundle": "key_door", "context": "steps"}')
    return str(tmp_path)


@pytest.fixture
def trained(tmp_path):
    run = tmp_path / "runs" / "one"
    model = run / "checkpoints" / "global_step_20" / "actor" / "huggingface"
    model.mkdir(parents=True)
    (run / "config.yaml").write_text("context: steps\nseed: 1\n")
    return str(model)


def test_a_warm_start_and_a_runs_checkpoint_say_it(warm, trained):
    assert known_layout(warm) == "steps"
    assert known_layout(trained) == "steps"


@pytest.mark.parametrize("text", ["", "[1]", '{"context": "poem"}', "{"])
def test_what_says_nothing_of_it_is_of_no_known_layout(tmp_path, text):
    (tmp_path / "warm_start.json").write_text(text)
    assert known_layout(str(tmp_path)) is None
    assert known_layout("org/model") is None
    assert mismatch(str(tmp_path), "steps") is None


def test_only_the_other_layout_is_warned_of(warm):
    assert mismatch(warm, "steps") is None
    assert mismatch(warm, "conversation") == (
        f"{warm} was trained with --context steps; with --context conversation it sees what it never learned from"
    )
