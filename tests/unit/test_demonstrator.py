import random

import pytest

from agent_env import Call, Episode, EpisodeError, Reply, load_bundle
from agent_env.demonstrator import PlayedMove, play
from agent_env.hosting.local import LocalHandle
from support.bundles import jsonl, task, write_bundle

TURNS = [{"id": f"t{i}", "prompt": "?", "verifier": {"type": "env"}} for i in (1, 2)]
TOML = 'name = "c"\nenv = "env:Counter"\nsplits = ["train"]\nreward = "mean"\n'


@pytest.fixture
def episode(tmp_path):
    bundle = load_bundle(write_bundle(tmp_path, {"bundle.toml": TOML, "tasks/train.jsonl": jsonl(task(turns=TURNS))}))
    return Episode(bundle, bundle.tasks("train")[0], LocalHandle(bundle))


def adds(turn, rng, error_rate):
    """Adds 2 and 3 at once in the first turn, then says what it saw and how it was asked to play."""
    if turn.id == "t1":
        answers = yield [Call("add", {"amount": 2}), Call("add", {"amount": 3})]
        yield Reply(" ".join(answers))
    yield Reply(f"{rng.random():.3f} {error_rate}")


async def test_a_play_is_recorded_turn_by_turn(episode):
    played = await play(episode, adds, random.Random(1), 0.25)
    first, second = played.turns
    shown = ("The counter shows 2.", "The counter shows 5.")
    assert first.moves == (PlayedMove((Call("add", {"amount": 2}), Call("add", {"amount": 3})), shown),)
    assert first.reply == " ".join(shown)
    assert (second.turn.id, second.moves, second.reply) == ("t2", (), f"{random.Random(1).random():.3f} 0.25")
    assert (played.task.id, played.observation.text) == ("t1", "The counter shows 0.")
    assert (played.ended.reward, played.ended.scores) == (1.0, {"t1": 1.0, "t2": 1.0})


def silent(turn, rng, error_rate):
    yield Call("add", {"amount": 1})


def wrong(turn, rng, error_rate):
    yield "add 1"


def broken(turn, rng, error_rate):
    (answer,) = yield Call("add", {"amount": 1})
    raise KeyError(answer)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (silent, "the demonstrator ended turn 't1' without a Reply"),
        (wrong, "the demonstrator yielded 'add 1' in turn 't1': a Call, a list of them or a Reply"),
        (broken, "the demonstrator raised KeyError: 'The counter shows 1.' in turn 't1'"),
    ],
)
async def test_what_a_demonstrator_may_not_do(episode, script, message):
    with pytest.raises(EpisodeError, match=message):
        await play(episode, script, random.Random(0), 0.0)
