"""Playing a room: what each step shows and is worth, how it ends, and how quick it is."""

import random
import time
from textwrap import dedent

import pytest

from agent_env import Ended, Episode, load_bundle
from agent_env.bundles.sokoban.making import make_puzzle
from agent_env.bundles.sokoban.room import read
from agent_env.hosting.local import LocalHandle
from support.text_games import demonstrated, fingerprint, first, pixels, played, success_rate

BUNDLE = load_bundle("sokoban")
TASK = BUNDLE.tasks("train")[0]
SOLUTION = make_puzzle(6, 1, 0, held_out=False).solution
ROOM = dedent("""\
    # # # # # #
    # P . . . #
    # . X . . #
    # . . O . #
    # . . . . #
    # # # # # #""")


@pytest.fixture
def by_hand():
    """An environment in the room of the tests' own."""
    environment = BUNDLE.environment()
    environment.reset(TASK, 0)
    environment.room, environment.state = read(ROOM)
    environment.deltas = {**environment.room.deltas(), "still": 0}
    environment.steps_left = 8
    return environment


def test_rewards_by_hand(by_hand):
    # A wall, the push right, the way round, the push down onto the target.
    actions = ["up", "down", "right", "up", "right", "down"]
    seen = [by_hand.step(action) for action in actions]
    assert [step.reward for step in seen] == [-0.1, -0.1, -0.1, -0.1, -0.1, 10.9]
    assert seen[0].text == ROOM
    assert [step.terminated for step in seen] == [False] * 5 + [True]
    assert (seen[-1].truncated, seen[-1].info, by_hand.score("")) == (False, {"success": True}, 1.0)
    assert seen[-1].text == f"{seen[-1].state}\nEvery box is on a target."
    assert seen[-1].state.splitlines()[2:4] == ["# . . P . #", "# . . V . #"]
    assert all(step.actions == ("up", "down", "left", "right", "still") for step in seen)


TWO_BOXES = dedent("""\
    # # # # # #
    # P . . . #
    # . X O . #
    # . . . . #
    # . X O . #
    # # # # # #""")


def test_a_box_onto_its_target_and_off_it(by_hand):
    by_hand.room, by_hand.state = read(TWO_BOXES)
    seen = [by_hand.step(action) for action in ("down", "right", "right", "right")]
    assert [step.reward for step in seen] == [-0.1, 0.9, -1.1, -0.1]
    assert seen[1].text.splitlines()[2] == "# . P V . #"
    assert seen[2].text.splitlines()[2] == "# . . S X #"
    assert seen[3].text == seen[2].text  # the box is at the wall
    assert not any(step.over for step in seen)


def test_two_boxes_are_solved_by_the_second(by_hand):
    by_hand.room, by_hand.state = read(TWO_BOXES)
    seen = [by_hand.step(action) for action in ("down", "right", "down", "left", "down", "right")]
    assert [step.reward for step in seen] == [-0.1, 0.9, -0.1, -0.1, -0.1, 10.9]
    assert seen[-1].info == {"success": True}


def test_standing_still_and_what_is_no_action_take_a_step(by_hand):
    still, wrong = by_hand.step(" STILL "), by_hand.step("jump")
    assert (still.text, still.reward) == (ROOM, -0.1)
    assert (wrong.text, wrong.reward) == (
        f"{ROOM}\nThere is no such action: use up, down, left, right, still.",
        -0.1,
    )
    assert still.state == wrong.state == ROOM
    for _ in range(5):
        assert not by_hand.step("still").over
    last = by_hand.step("still")
    assert (last.truncated, last.terminated, last.info) == (True, False, {"success": False})
    assert last.text == f"{ROOM}\nNo steps are left."


async def test_there_are_twice_as_many_steps_as_the_solution_takes():
    still = ["still"] * len(SOLUTION)
    solved = await played(BUNDLE, TASK, *still, *SOLUTION)
    assert (solved[-1].terminated, solved[-1].reward) == (True, 10.9)
    wasted = await played(BUNDLE, TASK, *still, *still)
    assert [step.truncated for step in wasted] == [False] * 2 * len(SOLUTION) + [True]


async def test_the_score_is_whether_every_box_is_on_a_target():
    for actions, score in ((SOLUTION, 1.0), (SOLUTION[:-1], 0.0)):
        episode = Episode(BUNDLE, TASK, LocalHandle(BUNDLE))
        await episode.start()
        for action in actions:
            await episode.call("act", {"action": action})
        assert await episode.end_turn("done") == Ended(score, {"solve": score})
        await episode.close()


def test_the_splits():
    assert {split: len(tasks) for split, tasks in BUNDLE.splits.items()} == {
        "train": 400,
        "eval": 200,
        "train-mixed": 400,
        "eval-mixed": 200,
        "train-pictures": 400,
        "eval-pictures": 200,
    }
    assert {(task.env["size"], task.env["boxes"]) for task in BUNDLE.tasks("train")} == {(6, 1)}
    mixed = {(task.env["size"], task.env["boxes"]) for task in BUNDLE.tasks("eval-mixed")}
    assert mixed == {(size, boxes) for size in range(5, 11) for boxes in range(1, 5)}
    in_text = [split for split in BUNDLE.splits if not split.endswith("-pictures")]
    assert len({task.seed for split in in_text for task in BUNDLE.tasks(split)}) == 1200
    plans = {}
    for split in in_text:
        rooms = (read(first(BUNDLE, task).text)[0] for task in BUNDLE.tasks(split))
        plans[split.split("-")[0]] = plans.get(split.split("-")[0], set()) | {*rooms}
    assert not plans["train"] & plans["eval"]


def test_the_rooms_stay_what_they_are():
    assert fingerprint(BUNDLE) == "eaa9247bafa32af3"


async def test_the_demonstrator_solves_every_room_and_errs_when_asked_to():
    assert await success_rate(BUNDLE, "eval", 0.0) == 1.0
    assert await success_rate(BUNDLE, "eval-mixed", 0.0) == 1.0
    assert 0.3 < await success_rate(BUNDLE, "eval", 0.4) < 0.9
    assert await success_rate(BUNDLE, "eval", 1.0) < 0.3


async def test_a_room_as_a_picture_is_the_room_in_text():
    in_text, shown = BUNDLE.tasks("train")[0], BUNDLE.tasks("train-pictures")[0]
    seen, pictured = [await played(BUNDLE, task, "jump", *SOLUTION) for task in (in_text, shown)]
    assert [step.state for step in pictured] == [step.state for step in seen]
    assert [step.reward for step in pictured] == [step.reward for step in seen]
    assert pictured[0].text == ""
    assert [step.text for step in pictured[1:2]] == ["There is no such action: use up, down, left, right, still."]
    assert pictured[-1].text == "Every box is on a target."
    assert pixels(pictured[0]).shape == (96, 96, 3)
    # What is seen is the state, and nothing but that.
    by_state = {step.state: step.images for step in pictured}
    assert len({*by_state.values()}) == len(by_state)
    assert all(by_state[step.state] == step.images for step in pictured)
    assert "bricks are walls" in shown.system_prompt
    assert "# is a wall" not in shown.system_prompt


async def test_the_demonstrator_solves_pictures():
    assert await success_rate(BUNDLE, "eval-pictures", 0.0, most=50) == 1.0


async def test_the_demonstrator_gives_up_a_room_that_cannot_be_solved_any_more():
    plays = [await demonstrated(BUNDLE, task, 0.9) for task in BUNDLE.tasks("eval")[:40]]
    gave_up = [play for play in plays if play.turns[0].reply == "This room cannot be solved any more."]
    assert gave_up
    assert {play.ended.reward for play in gave_up} == {0.0}


def test_a_step_takes_less_than_50_microseconds(by_hand):
    rng = random.Random(0)
    environment = BUNDLE.environment()
    environment.reset(BUNDLE.tasks("train")[3], 3)
    actions = [rng.choice(("up", "down", "left", "right", "still")) for _ in range(2000)]
    seconds = []
    for _ in range(5):
        started = time.process_time()
        for action in actions:
            environment.step(action)
        seconds.append((time.process_time() - started) / len(actions))
    assert min(seconds) < 50e-6
