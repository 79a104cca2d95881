"""Group environments: a group's rollouts play one episode, another group's another, an evaluation's its tasks' own."""

import asyncio

import pytest

from agent_env import load_bundle
from agent_env.bundle import find_bundle
from agent_env.training.shared import Shared
from agent_env.training.traces import read_traces
from agent_env.training.verl.seeds import DRAWN, group_seed
from support.servers import serving
from support.verl_tier import Written, rollout, trainer_config


@pytest.fixture(scope="module")
def key_door():
    with serving(find_bundle("key_door"), "--max-sessions", "16") as server:
        yield server


@pytest.mark.parametrize("context", ["conversation", "steps"])
async def test_a_group_has_one_episode_and_another_group_another(tiny, key_door, tmp_path, context):
    options = {"context": context, "draw_seeds": ("train",)}
    written = await asyncio.to_thread(Written, Shared(key_door.url), tmp_path / "data", **options)
    assert list(written.entry.draw_seeds) == ["train"]
    bundle = load_bundle("key_door")
    task, held_out = bundle.tasks("train")[3], bundle.tasks("eval")[3]

    async def played(task, step, session):
        folder = tmp_path / f"{task.id}-{step}-{session}"
        fields = {"global_steps": step, "session_id": session, "uid": "random"}
        config = trainer_config(seed=7)
        last = await rollout(
            tiny, written, task.id, "nothing", config=config, fields=fields, traces=str(folder),
            **({"max_steps": 1} if context == "steps" else {}),
        )  # fmt: skip
        (trace,) = read_traces(folder)
        return trace.seed, last.shown(0)

    first, again = await played(task, 1, 0), await played(task, 1, 5)
    assert first == again
    seed, prompt = first
    row = written.row(task.id)["extra_info"]
    assert seed == group_seed(7, _Place(row), {"global_steps": 1}) >= DRAWN
    other_seed, other_prompt = await played(task, 2, 0)
    assert other_seed != seed
    assert other_prompt != prompt  # another room
    evaluated = [await played(held_out, step, 0) for step in (1, 2)]
    assert evaluated[0] == evaluated[1]
    assert evaluated[0][0] == held_out.seed < DRAWN


class _Place:
    def __init__(self, extra):
        self.split, self.index = extra["split"], extra["index"]


async def test_a_bundle_that_does_not_say_so_keeps_its_seeds(tiny, workshop, tmp_path):
    url = workshop.url
    written = await asyncio.to_thread(Written, Shared(url), tmp_path / "data", draw_seeds=("train",))
    assert list(written.entry.draw_seeds) == []
