"""BabyAI on Minigrid: what is seen and from where, rewards, ends, splits, and the bot as demonstrator."""

import hashlib
import random
from pathlib import Path

import pytest
from minigrid.core.world_object import Ball, Box, Door, Key, Wall

from agent_env import Ended, Episode, load_bundle
from agent_env.bundles.babyai.levels import LEVELS, make_world, state_of
from agent_env.bundles.babyai.view import described
from agent_env.checking import check_bundle
from agent_env.hosting.local import LocalHandle
from support.text_games import demonstrated, first, played, success_rate

BUNDLE = load_bundle("babyai")
TASK = BUNDLE.tasks("train")[0]


@pytest.fixture
def room():
    """A room of 8×8 cells, its rim of wall included, empty but for the agent in its middle, which looks up."""
    world = make_world("go", 0, held_out=False)
    for column in range(1, 7):
        for row in range(1, 7):
            world.grid.set(column, row, None)
    world.agent_pos, world.agent_dir, world.mission = (4, 4), 3, "go to the red ball"
    return world


def seen(world):
    return described(world).split("You see:\n")[1].splitlines()


def test_things_are_where_they_are_from_the_agent(room):
    room.put_obj(Key("red"), 3, 2)
    room.put_obj(Ball("blue"), 4, 3)
    room.put_obj(Box("grey"), 6, 4)
    room.put_obj(Ball("green"), 4, 6)  # behind
    assert described(room) == (
        "Mission: go to the red ball\nYou carry nothing.\nYou see:\n"
        "a blue ball: 1 forward\na grey box: 2 right\na wall: 3 right\na red key: 2 forward, 1 left\na wall: 4 forward"
    )


@pytest.mark.parametrize(
    ("direction", "lines"),
    [
        (0, ["a wall: 3 forward", "a red key: 1 left", "a wall: 3 right"]),
        (1, ["a wall: 3 forward", "a wall: 3 left"]),  # looks down: the key is behind, the wall to the right too far
        (2, ["a red key: 1 right", "a wall: 3 left", "a wall: 4 forward"]),
        (3, ["a red key: 1 forward", "a wall: 3 right", "a wall: 4 forward"]),
    ],
)
def test_the_agent_sees_ahead_and_to_its_sides(room, direction, lines):
    room.put_obj(Key("red"), 4, 3)
    room.agent_dir = direction
    assert sorted(seen(room)) == sorted(lines)


def test_what_a_wall_hides_is_not_told_and_doors_have_a_state(room):
    for column in range(1, 7):
        room.grid.set(column, 3, Wall())
    room.put_obj(Ball("blue"), 4, 2)
    assert [line for line in seen(room) if "right" not in line] == ["a wall: 1 forward"]
    for door, said in (
        (Door("blue", is_locked=True), ["a locked blue door: 1 forward"]),
        (Door("blue"), ["a closed blue door: 1 forward"]),
        (Door("blue", is_open=True), ["a blue ball: 2 forward", "a wall: 4 forward", "an open blue door: 1 forward"]),
    ):
        room.grid.set(4, 3, door)
        assert sorted(line for line in seen(room) if "right" not in line and "left" not in line) == said


def test_what_is_carried(room):
    room.put_obj(Key("purple"), 4, 3)
    room.step(3)
    assert described(room).splitlines()[1] == "You carry a purple key."
    assert not any("key" in line for line in seen(room))


def test_equal_views_in_different_places_are_different_states(room):
    before, text = state_of(room), described(room)
    room.agent_pos = (5, 4)
    room.agent_dir = 3
    assert described(room) != text
    assert state_of(room) != before
    room.agent_pos = (4, 4)
    assert state_of(room) == before


async def test_an_accomplished_mission():
    play = await demonstrated(BUNDLE, TASK, 0.0)
    actions = [move.calls[0].arguments["action"] for move in play.turns[0].moves]
    seen = await played(BUNDLE, TASK, *actions)
    assert seen[0].actions == ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
    assert [step.reward for step in seen[:-1]] == [0.0] * len(actions)
    # Minigrid's: 1 less 0.9 of the share of the steps that were used.
    assert seen[-1].reward == pytest.approx(1 - 0.9 * len(actions) / 64)
    assert (seen[-1].terminated, seen[-1].truncated, seen[-1].info) == (True, False, {"success": True})
    assert seen[-1].text.endswith("\nThe mission is accomplished.")
    assert play.ended == Ended(1.0, {"mission": 1.0})


async def test_the_steps_of_a_level_and_what_is_no_action():
    seen = await played(BUNDLE, TASK, "jump", " Turn  LEFT", *["drop"] * 62)
    assert seen[1].text.startswith(seen[0].text)
    assert seen[1].text.endswith(
        "There is no such action: use turn left, turn right, go forward, pick up, drop, toggle."
    )
    assert seen[1].state == seen[0].state != seen[2].state
    assert [step.truncated for step in seen] == [False] * 64 + [True]
    assert (seen[-1].info, seen[-1].text.endswith("\nNo steps are left.")) == ({"success": False}, True)
    episode = Episode(BUNDLE, TASK, LocalHandle(BUNDLE))
    await episode.start()
    assert await episode.end_turn("done") == Ended(0.0, {"mission": 0.0})
    await episode.close()


def test_the_splits():
    assert {len(BUNDLE.tasks(split)) for split in BUNDLE.splits if split.startswith("train")} == {400}
    assert {len(BUNDLE.tasks(split)) for split in BUNDLE.splits if split.startswith("eval")} == {200}
    assert [
        BUNDLE.tasks(f"train{level}")[0].env["level"] for level in ("", *(f"-{name}" for name in [*LEVELS][1:]))
    ] == [*LEVELS]
    tasks = BUNDLE.tasks("all")
    assert len({task.seed for task in tasks}) == len(tasks) == 3600


@pytest.mark.parametrize("level", LEVELS)
def test_no_seed_makes_a_world_of_both_kinds(level):
    worlds = {held: {state_of(make_world(level, seed, held_out=held)) for seed in range(40)} for held in (False, True)}
    assert worlds[False].isdisjoint(worlds[True])
    assert min(map(len, worlds.values())) == 40


def test_a_level_that_there_is_not():
    with pytest.raises(ValueError, match="level: expected go, pickup, put, unlock, maze, synth, got 'boss'"):
        make_world("boss", 0, held_out=False)


def test_nothing_is_printed_while_worlds_are_drawn(capfd):
    for seed in range(20):
        make_world("put", seed, held_out=True)
    assert capfd.readouterr().out == ""


def test_worlds_stay_what_they_are():
    digest = hashlib.sha256()
    for split in BUNDLE.splits:
        for task in BUNDLE.tasks(split)[:10]:
            digest.update(first(BUNDLE, task).text.encode())
    assert digest.hexdigest()[:16] == "65f96629633b3d26"


@pytest.mark.parametrize("split", [split for split in BUNDLE.splits if split.startswith("eval")])
async def test_the_bot_accomplishes_every_mission(split):
    assert await success_rate(BUNDLE, split, 0.0, most=15) == 1.0


async def test_the_bot_goes_on_after_errors():
    assert await success_rate(BUNDLE, "eval-put", 0.2, most=25) > 0.8
    assert await success_rate(BUNDLE, "eval", 1.0, most=25) < 0.6


async def test_random_plays_of_the_hardest_level_raise_nothing():
    rng = random.Random(0)
    for task in BUNDLE.tasks("eval-synth")[:30]:
        environment = BUNDLE.environment()
        environment.reset(task, task.seed)
        for _ in range(40):
            if environment.step(
                rng.choice(("turn left", "go forward", "go forward", "pick up", "drop", "toggle"))
            ).over:
                break


def test_the_page_shows_what_is_seen():
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    assert f"```\n{first(BUNDLE, BUNDLE.tasks('train-put')[0]).text}\n```" in page


def test_it_stands_its_check():
    assert check_bundle("babyai").findings == ()
