"""AppWorld's own apps: what counts as done, worlds of their own that nothing escapes from, and its data's format."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from agent_env import Episode, EpisodeError, load_bundle
from agent_env.bundles.appworld import data
from agent_env.bundles.appworld.env import STOPPED
from agent_env.errors import SessionError
from agent_env.hosting.engine import close_engines
from agent_env.hosting.local import LocalHandle
from agent_env.training.sessions import Shared, opened
from support.servers import serving
from support.text_games import demonstrated
from support.waiting import until

LANDLOCK = int(os.uname().release.split(".")[0]) >= 6
DONE = "apis.supervisor.complete_task()"


@pytest.fixture(autouse=True)
def no_official_data(monkeypatch):
    """Whoever runs this may have it."""
    monkeypatch.delenv("APPWORLD_ROOT", raising=False)
    yield
    close_engines()


@pytest.fixture
def bundle():
    return load_bundle("appworld")


def named(bundle, name):
    return next(task for task in bundle.tasks("all") if task.id == name)


def kinds(tasks):
    return {task.id.split("_")[0] for task in tasks}


@contextlib.asynccontextmanager
async def episode_of(bundle, name):
    episode = Episode(bundle, named(bundle, name), LocalHandle(bundle))
    await episode.start()
    try:
        yield episode
    finally:
        await episode.close()


async def ran(bundle, name, *pieces):
    """What is seen after each piece of code, and how the episode ended."""
    async with episode_of(bundle, name) as episode:
        seen = [(await episode.call("execute", {"code": code})).observation for code in pieces]
        return seen, await episode.end_turn("done")


def test_twelve_kinds_of_tasks_four_of_which_are_in_no_training(bundle):
    splits = bundle.splits
    assert {split: len(tasks) for split, tasks in splits.items()} == {"train": 48, "eval": 24, "eval-unseen": 24}
    assert kinds(splits["train"]) == kinds(splits["eval"])
    assert len(kinds(splits["train"])) == 8
    assert len(kinds(splits["eval-unseen"]) - kinds(splits["train"])) == 4
    supervisors = {
        split: {data.specs(task.id)["supervisor"]["email"] for task in tasks} for split, tasks in splits.items()
    }
    assert not supervisors["train"] & (supervisors["eval"] | supervisors["eval-unseen"])
    # Two tasks of a kind may ask for the same, of different people with different things.
    prompts = {split: {task.turns[0].prompt for task in tasks} for split, tasks in splits.items()}
    assert not prompts["train"] & prompts["eval"]


async def test_doing_nothing_is_never_what_was_asked_for(bundle):
    first = {task.id.split("_")[0]: task.id for task in bundle.tasks("all")}
    assert len(first) == 12
    for name in first.values():
        seen, ended = await ran(bundle, name, DONE)
        assert (seen[0].terminated, seen[0].reward, seen[0].info["success"]) == (True, 0.0, False)
        assert ended.reward == 0.0
        # Nothing else was changed, and that is tested as well.
        assert 0 < ended.scores["task/tests"] < 1


async def test_what_a_trainer_sees_of_a_task_that_is_done(bundle):
    play = await demonstrated(bundle, named(bundle, "venmopay_1"), 0.0)
    seen = [move.answers[0].observation for move in play.turns[0].moves]
    assert [observation.reward for observation in seen] == [0.0, 0.0, 0.0, 10.0]
    assert [observation.terminated for observation in seen] == [False, False, False, True]
    assert seen[-1].info == {"success": True, "tests": 1.0}
    assert play.ended.scores == {"task/success": 1.0, "task/tests": 1.0}
    assert play.ended.reward == 1.0


async def test_the_right_answer_does_not_make_up_for_what_was_not_asked_for(bundle):
    *blocks, answer = data.steps("notetag_1")
    meddle = "apis.simple_note.delete_note(note_id=notes[0]['note_id'], access_token=token)"
    _, ended = await ran(bundle, "notetag_1", *blocks, meddle, answer)
    assert ended.scores == {"task/success": 0.0, "task/tests": 0.5}
    _, ended = await ran(bundle, "notetag_1", *blocks, "apis.supervisor.complete_task(answer=count + 1)")
    assert ended.scores == {"task/success": 0.0, "task/tests": 0.5}


async def test_equal_outputs_in_different_worlds_are_different_states(bundle):
    login, find, add, _ = data.steps("noteline_1")
    seen, _ = await ran(bundle, "noteline_1", login, find, "note = 1", add, "note = 1")
    assert seen[2].text == seen[3].text == seen[4].text == "Execution successful."
    assert seen[2].state != seen[3].state == seen[4].state
    again, _ = await ran(bundle, "noteline_1", login, find, "note = 1", add)
    assert [observation.state for observation in again] == [observation.state for observation in seen[:4]]


async def test_an_episode_is_cut_off_after_fifty_pieces_and_judged(bundle):
    seen, ended = await ran(bundle, "textsend_1", *["print(1)"] * 50)
    assert {observation.text for observation in seen} == {"1"}
    assert [observation.truncated for observation in seen] == [False] * 49 + [True]
    assert not seen[-1].terminated
    assert seen[-1].info["success"] is False
    assert ended.reward == 0.0


async def test_code_fails_in_words_and_the_guard_holds(bundle):
    pieces = {
        "print(1 / 0)": "ZeroDivisionError: division by zero",
        "print(": "Syntax error in line",
        "import os; os.system('ls')": "not allowed: os.system",
        "import subprocess": "not allowed: subprocess",
        "open('x', 'w')": "not allowed: builtins.open",
        "print(apis.venmo.show_transactions())": "401",
        "text = 'a' * 2**31": "MemoryError",
        "kept = []\nwhile True:\n    kept.append('a' * 2**20)": "MemoryError",
        "print(len(kept) > 500)": "True",
    }
    seen, _ = await ran(bundle, "venmosum_1", *pieces)
    for observation, said in zip(seen, pieces.values(), strict=True):
        assert said in observation.text


async def test_the_truth_is_not_where_code_can_reach_it(bundle):
    truth = data.data_folder() / "tasks" / "venmosum_1" / "ground_truth" / "answer.json"
    own = Path.home() / f".agent-env-test-{os.getpid()}"
    own.write_text("secret")
    pieces = (
        "from appworld.serve import environment\nprint(environment.world.task.ground_truth)",
        "import pathlib\nprint(pathlib.Path('data/tasks/venmosum_1/ground_truth').exists())",
        f"import pathlib\nprint(pathlib.Path({str(truth)!r}).read_text())",
        f"import pathlib\nprint(pathlib.Path({str(own)!r}).read_text())",
    )
    try:
        seen, _ = await ran(bundle, "venmosum_1", *pieces)
    finally:
        own.unlink()
    assert [observation.text for observation in seen[:2]] == ["None", "False"]
    if LANDLOCK:
        assert all("PermissionError" in observation.text for observation in seen[2:])


async def test_what_code_does_to_its_process_reaches_no_other_episode(bundle):
    spoil = (
        "import appworld.evaluator\nappworld.evaluator.evaluate_task = None\nimport math\nmath.pi = 3\nprint(math.pi)"
    )
    seen, ended = await ran(bundle, "notetag_1", spoil, DONE)
    assert seen[0].text == "3"
    assert seen[1].terminated
    assert ended.reward == 0.0  # judged nevertheless
    seen, _ = await ran(bundle, "notetag_1", "import math\nprint(math.pi)")
    assert seen[0].text.startswith("3.14")


def alive(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def world_processes():
    """Those that were forked off the engine."""
    engines = [child for child in psutil.Process().children() if "engine_process.py" in " ".join(child.cmdline())]
    return [process for engine in engines for process in engine.children()]


async def test_a_world_that_is_killed_costs_its_own_episode(bundle):
    async with episode_of(bundle, "notetag_1") as one, episode_of(bundle, "notetag_2") as other:
        first = next(p for p in world_processes() if p.pid == int(one._handle._env.world._folder.name))
        waiting = asyncio.create_task(one.call("execute", {"code": "while True:\n    pass"}))
        await asyncio.sleep(0.5)
        first.kill()
        with pytest.raises(EpisodeError, match="the world of notetag_1 ended in execute"):
            await waiting
        assert (await other.call("execute", {"code": "print(2)"})).text == "2"
    await until(lambda: not world_processes())


async def test_a_call_that_is_cancelled_ends_its_world(bundle):
    async with episode_of(bundle, "notetag_1") as episode:
        folder = episode._handle._env.world._folder
        waiting = asyncio.create_task(episode.call("execute", {"code": "while True:\n    pass"}))
        await asyncio.sleep(0.5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await until(lambda: not world_processes())
    assert not folder.exists()


@pytest.mark.timeout(600)
async def test_code_that_cannot_be_interrupted_ends_the_task(bundle):
    holds_the_lock = "sum(range(10**12))"
    seen, ended = await ran(bundle, "notetag_1", holds_the_lock)
    assert (seen[0].text, seen[0].terminated, seen[0].info["success"]) == (STOPPED, True, False)
    assert ended.reward == 0.0


async def test_worlds_beyond_the_bound_wait_and_then_give_up(bundle, monkeypatch):
    worlds = sys.modules[f"{bundle.environment.__module__.rpartition('.')[0]}.worlds"]
    monkeypatch.setattr(worlds, "WORLDS", 1)
    async with episode_of(bundle, "notetag_1"):
        waiting = asyncio.create_task(demonstrated(bundle, named(bundle, "notetag_2"), 0.0))
        await asyncio.sleep(1)
        assert not waiting.done()
    assert (await waiting).ended.reward == 1.0
    monkeypatch.setattr(worlds, "WAIT_SECONDS", 0.2)
    async with episode_of(bundle, "notetag_1"):
        with pytest.raises(EpisodeError, match="none of 1 worlds came free"):
            async with episode_of(bundle, "notetag_2"):
                pass


@pytest.mark.timeout(600)
async def test_nothing_is_left_of_a_server_that_was_killed():
    # Short, since there are sockets in it.
    with (
        tempfile.TemporaryDirectory(prefix="ae-") as temporary,
        serving("appworld", env={"TMPDIR": temporary}) as server,
    ):
        ended = subprocess.Popen(["true"])
        ended.wait()
        left = Path(temporary, f"appworld-{ended.pid}-left")
        left.mkdir()
        shared = Shared(server.url, reset_timeout=300, call_timeout=300)
        sessions = [opened(shared, "train", index) for index in range(3)]
        for session in [await session.__aenter__() for session in sessions]:
            assert (await session.call("execute", {"code": "print(6 * 7)"})).text == "42"
        processes = psutil.Process(server.process.pid).children(recursive=True)
        assert len(processes) > 3
        # What another that was killed has left is removed.
        assert not left.exists()
        assert [name.split("-")[0] for name in os.listdir(temporary)] == ["appworld"]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        await until(lambda: not any(map(alive, processes)))
        for session in sessions:
            with contextlib.suppress(SessionError):
                await session.__aexit__(None, None, None)


@pytest.fixture
def official(bundle, monkeypatch, tmp_path):
    """AppWorld's folder of data, with tasks of ours: their format is AppWorld's own."""
    own = data.data_folder()
    root = tmp_path / "root"
    shutil.copytree(own / "datasets", root / "data" / "datasets")
    for name in ("api_docs", "base_dbs"):
        (root / "data" / name).symlink_to(own / name)
    for name in ("notetag_1", "notetag_2", "alarmshift_1"):
        shutil.copytree(own / "tasks" / name, root / "data" / "tasks" / name)
    datasets = root / "data" / "datasets"
    for name, text in (("train", "notetag_1"), ("test_normal", "notetag_2:hard"), ("test_challenge", "alarmshift_1")):
        (datasets / f"{name}.txt").write_text(f"{text}\n")
    truth = root / "data" / "tasks" / "notetag_1" / "ground_truth"
    code = "\n".join(json.loads((truth / "steps.json").read_text()))
    (truth / "steps.json").unlink()
    indented = "\n".join(f"    {line}" for line in code.splitlines())
    (truth / "compiled_solution.py").write_text(f"def solution(apis, requester):\n{indented}\n")
    (root / "data" / "tasks" / "notetag_2" / "ground_truth" / "steps.json").unlink()
    monkeypatch.setenv("APPWORLD_ROOT", str(root))


async def test_official_tasks_are_played_where_they_are(official):
    bundle = load_bundle("appworld")
    assert {split: [task.id for task in tasks] for split, tasks in bundle.splits.items()} == {
        "train": ["notetag_1"],
        "eval": ["notetag_2"],
        "eval-unseen": ["alarmshift_1"],
    }
    rewards = [(await demonstrated(bundle, task, 0.0)).ended.reward for task in bundle.tasks("all")]
    # The second has no solution, as AppWorld's tests have none.
    assert rewards == [1.0, 0.0, 1.0]
