"""ALFWorld on its own engine: our problems, official games in their format, and many episodes at once."""

import asyncio
import json
import os
import random
from collections import Counter

import psutil
import pytest

from agent_env import load_bundle
from agent_env.bundles.alfworld import official
from agent_env.bundles.alfworld.game import Game
from agent_env.bundles.alfworld.making import TYPES, make_problem
from agent_env.bundles.alfworld.scenes import scene, scene_numbers
from agent_env.bundles.alfworld.tasks import problems
from agent_env.training.sessions import Shared, opened
from support.servers import serving
from support.text_games import demonstrated, played

SPLITS = {"train": 200, "eval": 60, "eval-unseen": 60}


@pytest.fixture(autouse=True)
def no_official_data(monkeypatch, tmp_path):
    """Whoever runs this may have it."""
    monkeypatch.setenv("ALFWORLD_DATA", "")
    monkeypatch.setenv("AGENT_ENV_HOME", str(tmp_path / "cache"))


def test_problems_of_every_type_in_rooms_that_are_held_out_or_not():
    rows = {split: problems(split) for split in SPLITS}
    assert {split: len(found) for split, found in rows.items()} == SPLITS
    for found in rows.values():
        counts = Counter(row["type"] for row in found)
        assert set(counts) == set(TYPES)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert all(3 <= row["plan"] <= 30 for row in found)
    rooms = {split: {row["scene"] for row in found} for split, found in rows.items()}
    assert rooms["train"] <= set(scene_numbers(unseen=False)) >= rooms["eval"]
    assert rooms["eval-unseen"] <= set(scene_numbers(unseen=True))
    every = [(row["type"], row["scene"], row["seed"]) for found in rows.values() for row in found]
    assert len(set(every)) == 320


def test_every_problem_is_made_as_it_was_chosen():
    for split in SPLITS:
        for row in problems(split):
            problem = make_problem(row["type"], row["scene"], row["seed"])
            assert problem.words == row["goal"]
            wanted = [item for item in problem.items if item.kind == problem.goal.object]
            assert len(wanted) >= (2 if row["type"] == "pick_two_obj_and_place" else 1)
            kinds = [kind for kind, _ in problem.scene.receptacles]
            # It begins away from where it is wanted.
            assert all(kinds[item.where] != problem.goal.receptacle for item in wanted)


def test_a_room_is_the_table_s():
    kitchen = scene(1)
    assert "Cabinet|+00.68|+00.50|-02.20" in dict(map(reversed, kitchen.receptacles))
    counts = Counter(kind for kind, _ in kitchen.receptacles)
    assert (counts["Cabinet"], counts["CounterTop"], counts["Microwave"], counts["SinkBasin"]) == (4, 3, 1, 1)
    assert {"Apple", "Mug", "Knife"} <= set(kitchen.objects)
    assert "Fridge" not in kitchen.objects
    assert not kitchen.lamp
    assert scene(301).lamp


@pytest.mark.parametrize("split", SPLITS)
def test_the_planners_plan_solves_each_type(split):
    for row in problems(split)[: len(TYPES)]:
        game = Game.of({"type": row["type"], "scene": row["scene"], "seed": row["seed"]})
        seen = game.start()
        assert f"Your task is to: {row['goal']}." in seen.text
        plan = game.plan()
        assert len(plan) == row["plan"]
        for command in plan:
            assert command in seen.commands
            assert not seen.won
            seen = game.do(command)
        assert seen.won
        game.close()


async def test_a_won_game_and_what_a_trainer_sees_of_it():
    bundle = load_bundle("alfworld")
    task = bundle.tasks("train")[0]
    assert task.turns[0].prompt == f"Your task is to: {problems('train')[0]['goal']}."
    moves = (await demonstrated(bundle, task, 0.0)).turns[0].moves
    actions = [move.calls[0].arguments["action"] for move in moves]
    seen = await played(bundle, task, *actions)
    assert seen[0].text.startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert not any("help" in observation.actions for observation in seen)
    assert all(observation.state == observation.text for observation in seen)
    assert [observation.reward for observation in seen] == [0.0] * len(actions) + [10.0]
    assert [observation.terminated for observation in seen] == [False] * len(actions) + [True]
    assert not any(observation.truncated for observation in seen)
    assert seen[-1].info == {"success": True, "type": task.turns[0].id}
    assert all(observation.info == {} for observation in seen[:-1])


async def test_what_cannot_be_done_takes_a_step_and_fifty_are_the_end():
    bundle = load_bundle("alfworld")
    task = bundle.tasks("eval")[0]
    seen = await played(bundle, task, *["fly to the moon"] * 50)
    assert {observation.text for observation in seen[1:]} == {"Nothing happens."}
    assert {observation.actions for observation in seen} == {seen[0].actions}
    assert [observation.truncated for observation in seen] == [False] * 50 + [True]
    assert not seen[-1].terminated
    assert seen[-1].info == {"success": False, "type": task.turns[0].id}


async def test_case_and_space_around_words_do_not_matter():
    bundle = load_bundle("alfworld")
    task = bundle.tasks("eval")[0]
    go = next(action for action in (await played(bundle, task))[0].actions if action.startswith("go to"))
    one, other = [(await played(bundle, task, action))[1] for action in (go, f"  {go.upper().replace(' ', '  ')} ")]
    assert one == other
    assert one.text.startswith("You arrive at ")


async def test_the_state_may_have_what_is_carried(monkeypatch):
    bundle = load_bundle("alfworld")
    task = next(task for task in bundle.tasks("train") if task.turns[0].id == "pick_and_place_simple")
    moves = (await demonstrated(bundle, task, 0.0)).turns[0].moves
    actions = [move.calls[0].arguments["action"] for move in moves]
    taken = next(index for index, action in enumerate(actions) if action.startswith("take"))
    thing = actions[taken].removeprefix("take ").split(" from ")[0]
    monkeypatch.setenv("AGENT_ENV_ALFWORLD_STATE", "inventory")
    seen = await played(bundle, task, *actions)
    assert seen[taken].state == f"{seen[taken].text}\nYou are carrying: nothing."
    assert seen[taken + 1].state == f"{seen[taken + 1].text}\nYou are carrying: {thing}."


async def test_the_demonstrator_finds_its_way_after_errors():
    bundle = load_bundle("alfworld")
    plays = [await demonstrated(bundle, task, 0.3) for task in bundle.tasks("eval-unseen")[:6]]
    assert [play.ended.reward for play in plays] == [1.0] * 6
    assert all(len(play.turns[0].moves) > 0 for play in plays)


def write_official(top, name, kind, number, seed, **changes):
    """A game in the format of ALFWorld's own files, by a problem of ours."""
    folder = top / "json_2.1.1" / name
    folder.mkdir(parents=True)
    game = {**make_problem(kind, number, seed).data(), "walkthrough": [], **changes.get("game", {})}
    about = {"task_type": kind, **changes.get("about", {})}
    (folder / official.GAME).write_text(json.dumps(game))
    (folder / official.ABOUT).write_text(json.dumps(about))


@pytest.fixture
def official_data(tmp_path, monkeypatch):
    top = tmp_path / "alfworld-data"
    write_official(top, "train/pick_heat-Mug-7/trial_2", TYPES[3], 7, 1)
    write_official(top, "train/pick_heat-Mug-7/trial_1", TYPES[3], 7, 2)
    write_official(top, "train/look-308/trial_1", TYPES[1], 308, 3)
    write_official(top, "train/pick_and_place_with_movable_recep-7/trial_1", TYPES[0], 7, 4)
    write_official(top, "train/pick-AppleSliced-7/trial_1", TYPES[0], 7, 5)
    write_official(top, "train/unsolvable-7/trial_1", TYPES[0], 7, 6, game={"solvable": False})
    write_official(top, "train/other-7/trial_1", TYPES[0], 7, 7, about={"task_type": "wash_the_dog"})
    write_official(top, "valid_seen/clean-7/trial_1", TYPES[2], 7, 8)
    write_official(top, "valid_unseen/cool-1/trial_1", TYPES[4], 1, 9)
    monkeypatch.setenv("ALFWORLD_DATA", str(top))
    return top


async def test_official_games_are_played_where_they_are(official_data):
    bundle = load_bundle("alfworld")
    assert {split: [task.id for task in bundle.tasks(split)] for split in SPLITS} == {
        "train": ["train/look-308/trial_1", "train/pick_heat-Mug-7/trial_1", "train/pick_heat-Mug-7/trial_2"],
        "eval": ["valid_seen/clean-7/trial_1"],
        "eval-unseen": ["valid_unseen/cool-1/trial_1"],
    }
    task = bundle.tasks("train")[1]
    assert task.turns[0].prompt == f"Your task is to: {make_problem(TYPES[3], 7, 2).words}."
    play = await demonstrated(bundle, task, 0.0)
    assert (play.ended.reward, play.ended.scores) == (1.0, {TYPES[3]: 1.0})


def test_the_index_is_made_once_and_again_when_games_come(official_data, monkeypatch):
    first = official.official_games(official_data, "eval", TYPES)
    monkeypatch.setattr(official, "_games", None)
    assert official.official_games(official_data, "eval", TYPES) == first
    monkeypatch.undo()
    write_official(official_data, "valid_seen/cool-8/trial_1", TYPES[4], 8, 10)
    assert len(official.official_games(official_data, "eval", TYPES)) == 2


@pytest.mark.timeout(900)
async def test_32_episodes_at_once_on_a_server_that_starts_quickly(tmp_path):
    with serving("alfworld", "--max-sessions", "32", env=dict(os.environ)) as server:
        processes = [psutil.Process(server.process.pid)]
        processes += processes[0].children(recursive=True)
        # Processor time, which other load does not lengthen, of the server and of what it has ready.
        assert sum(sum(process.cpu_times()[:4]) for process in processes) < 10
        shared = Shared(server.url, reset_timeout=600, call_timeout=600)

        async def episode(index):
            rng = random.Random(index)
            async with opened(shared, "train", index) as session:
                seen = session.observation
                for _ in range(8):
                    if seen["terminated"]:
                        break
                    answer = await session.call("act", {"action": rng.choice(seen["actions"])})
                    assert not answer.is_error
                    seen = answer.observation
                return await session.finish("done")

        ended = await asyncio.gather(*(episode(index) for index in range(32)))
    assert len(ended) == 32
    assert not [line for line in server.log if "Traceback" in line]
