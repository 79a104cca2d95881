import json
import random

import pytest

from agent_env import Call, Episode, EpisodeError, Given, Look, Reply, load_bundle
from agent_env.demonstrator import PlayedMove, play
from agent_env.hosting.local import LocalHandle
from agent_env.tools import ToolResult
from support.bundles import ENV, jsonl, task, write_bundle

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
    shown = (ToolResult("The counter shows 2."), ToolResult("The counter shows 5."))
    assert first.moves == (PlayedMove((Call("add", {"amount": 2}), Call("add", {"amount": 3})), shown),)
    assert first.reply == "The counter shows 2. The counter shows 5."
    assert (second.turn.id, second.moves, second.reply) == ("t2", (), f"{random.Random(1).random():.3f} 0.25")
    assert (played.task.id, played.observation.text) == ("t1", "The counter shows 0.")
    assert (played.ended.reward, played.ended.scores) == (1.0, {"t1": 1.0, "t2": 1.0})


def looks(turn, rng, error_rate):
    """Looks before it acts and after, and says what it saw."""
    (first,) = yield Look()
    yield Call("add", {"amount": 5})
    (again,) = yield Look()
    yield Reply(f"{first} {again}")


async def test_a_look_is_answered_with_the_first_observation_and_is_no_move(episode):
    played = await play(episode, looks, random.Random(1), 0.0)
    assert [len(turn.moves) for turn in played.turns] == [1, 1]
    assert [turn.reply for turn in played.turns] == ["The counter shows 0. The counter shows 0."] * 2


async def test_a_look_at_an_environment_that_shows_nothing(tmp_path):
    env = ENV.replace('return Observation(f"The counter shows {self.value}.")', "pass")
    bundle = load_bundle(write_bundle(tmp_path, {"env.py": env}))
    played = await play(Episode(bundle, bundle.tasks("train")[0], LocalHandle(bundle)), looks, random.Random(1), 0.0)
    assert played.turns[0].reply == " "


def knows(turn, rng, error_rate):
    """Replies with what the episode is made of."""
    (given,) = yield Given()
    yield Reply(given)


async def test_a_given_is_answered_with_the_tasks_env_and_the_episodes_seed(tmp_path):
    made = jsonl(task(env={"goal": ["é", 2]}, seed=5))
    bundle = load_bundle(write_bundle(tmp_path, {"tasks/train.jsonl": made}))
    for seed, played_with in ((None, 5), (7, 7)):
        episode = Episode(bundle, bundle.tasks("train")[0], LocalHandle(bundle), seed)
        (turn,) = (await play(episode, knows, random.Random(1), 0.0)).turns
        assert turn.moves == ()
        assert json.loads(turn.reply) == {"env": {"goal": ["é", 2]}, "seed": played_with}


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
        (wrong, "the demonstrator yielded 'add 1' in turn 't1': a Call, a list of them, a Look, a Given or a Reply"),
        (broken, "the demonstrator raised KeyError: 'The counter shows 1.' in turn 't1'"),
    ],
)
async def test_what_a_demonstrator_may_not_do(episode, script, message):
    with pytest.raises(EpisodeError, match=message):
        await play(episode, script, random.Random(0), 0.0)
