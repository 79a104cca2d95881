"""A play of a task, from its start to every way it can end."""

import asyncio
import math

import pytest

from agent_env import Ended, Episode, EpisodeError, ScoreError, load_bundle
from agent_env.hosting.local import LocalHandle
from support.bundles import TOML, jsonl, write_bundle

ENV = """
import asyncio
from agent_env import Environment, Observation, tool

class Stage(Environment):
    closed = []

    def reset(self, task, seed):
        self.task, self.seed = task, seed
        if task.env.get("fail"):
            raise RuntimeError("no scene")
        task.env["dirty"] = task.env.get("dirty", 0) + 1
        return Observation(f"seed {seed}, dirty {task.env['dirty']}", terminated=task.env.get("over", False))

    @tool
    async def sleep(self) -> str:
        await asyncio.Event().wait()

    @tool
    def finish(self) -> Observation:
        return Observation("done", terminated=True)

    @tool
    def long(self, length: int, images: int = 0) -> Observation:
        return Observation("ä" * length, images=["x" * images])

    @tool
    def crash(self) -> str:
        raise OSError("disk")

    def score(self, reply):
        return self.task.env["score"]

    def close(self):
        self.closed.append(self.task.id)
        if self.task.env.get("jammed"):
            raise RuntimeError("jammed")

async def judge(reply, task, turn):
    await asyncio.sleep(0)
    return float(reply)
"""

LIMITS = """
[limits]
call_timeout = 0.2
max_answer_bytes = 1024
"""


def turn(id, verifier=None):
    return {"id": id, "prompt": f"prompt of {id}", "verifier": verifier}


def one(text):
    return {"type": "exact", "text": text}


@pytest.fixture
def make(tmp_path):
    """An episode of a task with these turns and this `env`, made but not started."""

    def make(turns, env=None, reward="mean", seed=None, number=1):
        toml = TOML.replace("env:Counter", "env:Stage") + f'reward = "{reward}"\n' + LIMITS
        tasks = jsonl({"id": "t", "turns": turns, "env": env or {}, "seed": 3})
        bundle = load_bundle(write_bundle(tmp_path, {"bundle.toml": toml, "env.py": ENV, "tasks/train.jsonl": tasks}))
        made = [Episode(bundle, bundle.tasks("train")[0], LocalHandle(bundle), seed) for _ in range(number)]
        return made[0] if number == 1 else made

    return make


async def test_turns_open_one_after_another_and_scores_have_their_ids(make):
    episode = make([turn("a", one("x")), turn("silent"), turn("b", one("y"))])
    await episode.start()
    assert (episode.turn.id, episode.turn_index) == ("a", 0)
    assert (await episode.end_turn("x")).prompt == "prompt of silent"
    assert (await episode.end_turn("whatever")).id == "b"
    assert (episode.turn.id, episode.turn_index) == ("b", 2)
    assert await episode.end_turn("no") == Ended(0.5, {"a": 1.0, "b": 0.0})
    assert episode.step_count == 3
    await episode.close()


async def test_the_seed_is_the_tasks_unless_another_is_given(make):
    assert (await make([turn("a", one("x"))]).start()).text == "seed 3, dirty 1"
    assert (await make([turn("a", one("x"))], seed=9).start()).text == "seed 9, dirty 1"


async def test_what_an_environment_changes_in_its_task_is_not_seen_by_the_next(make):
    first, second = make([turn("a", one("x"))], number=2)
    await first.start()
    assert (await second.start()).text == "seed 3, dirty 1"


async def test_several_scores_of_the_environment_are_named_under_their_turn(make):
    episode = make([turn("day", {"type": "env"})], {"score": {"cost": 0.25, "time": True}}, reward="day/cost")
    await episode.start()
    assert await episode.end_turn("") == Ended(0.25, {"day/cost": 0.25, "day/time": 1.0})


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (None, "step 'day': the score is None, expected a number in 0..1"),
        ("good", "step 'day': the score is 'good'"),
        (1.01, "step 'day': the score is 1.01"),
        (-0.5, "step 'day': the score is -0.5"),
        ({}, "step 'day': the score is an empty table"),
        ({"cost": 2}, "step 'day/cost': the score is 2.0"),
    ],
)
async def test_what_is_no_score_names_the_step(make, score, message):
    episode = make([turn("day", {"type": "env"})], {"score": score})
    await episode.start()
    with pytest.raises(ScoreError, match=message):
        await episode.end_turn("")
    with pytest.raises(EpisodeError, match=message):
        await episode.end_turn("")


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
async def test_nan_and_infinities_are_no_scores(make, score):
    episode = make([turn("day", {"type": "python", "function": "env:judge"})])
    await episode.start()
    with pytest.raises(ScoreError, match=f"step 'day': the score is {score}, expected a number in 0..1"):
        await episode.end_turn(str(score))


async def test_a_missing_score_is_an_error_of_the_reward(make):
    episode = make([turn("day", {"type": "env"})], {"score": {"time": 1}}, reward="day/cost")
    await episode.start()
    with pytest.raises(
        ScoreError, match="the reward 'day/cost' needs the score of step 'day/cost'; recorded: day/time"
    ):
        await episode.end_turn("")


async def test_a_call_past_its_deadline_ends_the_episode(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    message = r"tool 'sleep' ran past 0.2 s \(limits.call_timeout of bundle.toml\)"
    with pytest.raises(EpisodeError, match=message):
        await episode.call("sleep", {})
    with pytest.raises(EpisodeError, match=message):
        await episode.end_turn("x")
    await episode.close()


async def test_a_failure_of_the_environment_ends_the_episode(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    for _ in range(2):
        with pytest.raises(EpisodeError, match="tool 'crash' raised OSError: disk"):
            await episode.call("crash", {})
    await episode.close()
    assert episode.bundle.environment.closed == ["t"]


async def test_a_mistake_of_the_model_does_not(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    assert (await episode.call("nothing", {})).kind == "tool_not_found"
    assert (await episode.call("long", {})).kind == "invalid_args"
    assert (await episode.end_turn("x")).reward == 1.0


async def test_a_cancelled_call_ends_the_episode(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    call = asyncio.create_task(episode.call("sleep", {}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    with pytest.raises(EpisodeError, match="tool 'sleep' was cancelled"):
        await episode.end_turn("x")


async def test_a_failed_reset(make):
    episode = make([turn("a", one("x"))], {"fail": True})
    for _ in range(2):
        with pytest.raises(EpisodeError, match="reset raised RuntimeError: no scene"):
            await episode.start()
    await episode.close()


async def test_an_environment_that_has_ended_takes_no_more_calls(make):
    episode = make([turn("a", one("x")), turn("b", one("y"))])
    await episode.start()
    assert (await episode.call("finish", {})).observation.terminated
    refused = await episode.call("finish", {})
    assert (refused.is_error, refused.text) == (
        True,
        "The environment has reached its end; nothing more can be done in it.",
    )
    assert (await episode.end_turn("x")).id == "b"
    assert (await episode.call("finish", {})).is_error
    assert (await episode.end_turn("y")).reward == 1.0


async def test_an_environment_may_have_ended_at_its_start(make):
    episode = make([turn("a", one("x"))], {"over": True})
    await episode.start()
    assert (await episode.call("finish", {})).is_error


async def test_long_answers_are_cut_and_say_so(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    assert (await episode.call("long", {"length": 512})).text == "ä" * 512
    cut = await episode.call("long", {"length": 513})
    assert cut.text == "ä" * 512 + "\n[cut here: the answer has 1026 bytes, the limit is 1024]"
    assert cut.observation.text == cut.text


async def test_images_over_the_limit_are_a_failure(make):
    episode = make([turn("a", one("x"))])
    await episode.start()
    with pytest.raises(
        EpisodeError, match=r"tool 'long' answered with 1025 bytes of images, over limits.max_answer_bytes"
    ):
        await episode.call("long", {"length": 1, "images": 1025})


async def test_states(make):
    episode = make([turn("a", one("x"))])
    with pytest.raises(EpisodeError, match="the episode has not started"):
        await episode.call("finish", {})
    await episode.start()
    with pytest.raises(EpisodeError, match="the episode is running already"):
        await episode.start()
    await episode.end_turn("x")
    with pytest.raises(EpisodeError, match="the episode has ended"):
        await episode.end_turn("x")
    await episode.close()
    await episode.close()
    assert episode.bundle.environment.closed == ["t"]
    with pytest.raises(EpisodeError, match="the episode is closed"):
        await episode.call("finish", {})


async def test_a_close_that_fails_says_so(make):
    episode = make([turn("a", one("x"))], {"jammed": True})
    await episode.start()
    with pytest.raises(EpisodeError, match="close raised RuntimeError: jammed"):
        await episode.close()
