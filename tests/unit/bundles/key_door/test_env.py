"""Playing a room: what each step shows and is worth, and the two ways it ends."""

from agent_env import Ended, Episode, load_bundle
from agent_env.bundles.key_door.grid import make_room, shortest
from agent_env.hosting.local import LocalHandle
from support.text_games import demonstrated, fingerprint, first, played, success_rate

BUNDLE = load_bundle("key_door")
TASK = BUNDLE.tasks("train")[0]
WAY = shortest(*make_room(6, 0, held_out=False))


async def test_the_shortest_way_earns_its_reward_at_the_goal_alone():
    seen = await played(BUNDLE, TASK, *WAY)
    assert [step.reward for step in seen] == [0.0] * len(WAY) + [10.0]
    assert [step.terminated for step in seen] == [False] * len(WAY) + [True]
    assert not any(step.truncated for step in seen)
    assert [step.info for step in seen] == [{}] * len(WAY) + [{"success": True}]
    assert all(step.actions == ("up", "down", "left", "right") for step in seen)
    assert seen[-1].text == f"{seen[-1].state}\nThe goal is reached."


async def test_after_twice_the_shortest_way_no_step_is_left():
    seen = await played(BUNDLE, TASK, *["nowhere"] * (2 * len(WAY)))
    last = seen[-1]
    assert (last.truncated, last.terminated, last.reward, last.info) == (True, False, 0.0, {"success": False})
    assert last.text == f"{seen[0].text}\nNo steps are left."
    assert not any(step.over for step in seen[:-1])
    assert seen[1].text == f"{seen[0].text}\nThere is no such action: use up, down, left, right."
    assert {step.state for step in seen} == {seen[0].text}


async def test_the_goal_may_be_reached_with_the_last_step():
    seen = await played(BUNDLE, TASK, *["wait"] * len(WAY), *WAY)
    assert (seen[-1].terminated, seen[-1].truncated, seen[-1].info) == (True, False, {"success": True})


async def test_actions_are_read_without_case_and_space():
    plain, loud = [await played(BUNDLE, TASK, action) for action in (WAY[0], f" {WAY[0].upper()}\n")]
    assert plain == loud
    assert plain[1].state != plain[0].state


async def test_the_score_is_whether_the_goal_was_reached():
    for actions, score in ((WAY, 1.0), (WAY[:-1], 0.0), ((), 0.0)):
        episode = Episode(BUNDLE, TASK, LocalHandle(BUNDLE))
        await episode.start()
        for action in actions:
            await episode.call("act", {"action": action})
        assert await episode.end_turn("done") == Ended(score, {"goal": score})
        await episode.close()


async def test_the_episodes_seed_is_the_rooms():
    (own,), (other,) = await played(BUNDLE, TASK), await played(BUNDLE, TASK, seed=5)
    assert own.text == first(BUNDLE, TASK).text != other.text == first(BUNDLE, BUNDLE.tasks("train")[5]).text


def test_the_splits():
    assert {split: len(tasks) for split, tasks in BUNDLE.splits.items()} == {
        "train": 400,
        "eval": 200,
        "validation": 100,
        "train-mixed": 400,
        "eval-mixed": 200,
    }
    assert {task.env["size"] for split in ("train", "eval") for task in BUNDLE.tasks(split)} == {6}
    assert {task.env["size"] for task in BUNDLE.tasks("eval-mixed")} == {5, 6, 7, 8}
    assert len({task.seed for task in BUNDLE.tasks("all")}) == 1300
    rooms = {split: {first(BUNDLE, task).text for task in BUNDLE.tasks(split)} for split in BUNDLE.splits}
    assert not (rooms["train"] | rooms["train-mixed"]) & (rooms["eval"] | rooms["eval-mixed"] | rooms["validation"])
    assert not rooms["eval"] & rooms["validation"]


def test_the_rooms_stay_what_they_are():
    assert fingerprint(BUNDLE) == "0ce56aa3a81327a6"


def test_an_observation_is_short():
    for task in BUNDLE.tasks("all"):
        text = first(BUNDLE, task).text
        words = [word for line in text.splitlines() for word in [*line.split(), "\n"]]
        assert len(words) == task.env["size"] * (task.env["size"] + 1) + 3  # a cell, a line's end; key: no


async def test_the_demonstrator_walks_the_shortest_way_and_errs_when_asked_to():
    demonstration = await demonstrated(BUNDLE, TASK, 0.0)
    moves = demonstration.turns[0].moves
    assert [call.arguments["action"] for move in moves for call in move.calls] == [*WAY]
    assert await success_rate(BUNDLE, "eval", 0.0) == 1.0
    assert 0.3 < await success_rate(BUNDLE, "eval", 0.6) < 0.9
    assert await success_rate(BUNDLE, "eval", 1.0) < 0.3
