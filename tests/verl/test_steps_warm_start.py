"""What a warm start teaches of a play in the step layout, and what the step loop makes of the same play."""

import asyncio

import pytest
from verl.utils import hf_tokenizer

from agent_env import load_bundle
from agent_env.training.shared import Shared
from agent_env.training.step_options import StepOptions
from agent_env.training.tiny.conversations import tokens_of
from agent_env.training.tiny.plays import plays
from agent_env.training.tiny.steps import LONGEST, demonstrated_steps
from agent_env.training.tiny.warm_start import taught
from agent_env.training.verl.cpu.asked import evaluation_config
from support.servers import serving
from support.verl_tier import Written, rollout, trainer_config


@pytest.fixture(scope="module", params=["inbox", "gridsim", "key_door", "sokoban", "gym_cards"])
def played(request, tmp_path_factory):
    """A built-in bundle's rows in the step layout, a few plays of it, and a tokenizer learned from them."""
    bundle, folder = load_bundle(request.param), tmp_path_factory.mktemp(request.param)
    every = plays(bundle, "train", times=1, error_rate=0.3, seed=0, progress=lambda *_: None)
    taught(bundle, every[:40], StepOptions(memory="full"))[0].save_pretrained(folder / "tokenizer")
    with serving(request.param, "--max-sessions", "4") as server:
        rows = Written(Shared(server.url), folder / "data", context="steps")
        longest = max(every, key=lambda play: sum(len(turn.moves) for turn in play.turns))
        yield bundle, rows, [*every[:3], longest], hf_tokenizer(folder / "tokenizer")


@pytest.mark.parametrize("options", [{"memory": "none"}, {"memory": "full"}, {"memory": "summary(20)", "max_steps": 5}])
async def test_the_prompts_and_replies_are_the_loops_token_for_token(played, options):
    bundle, rows, shown, tokenizer = played
    config = trainer_config(prompt_length=LONGEST, multi_turn__max_parallel_calls=8)
    plain = {"step_prompt": None, "memory": "none", "max_steps": 50} | options
    for play in shown:
        steps = await asyncio.to_thread(demonstrated_steps, bundle, [play], StepOptions(**plain), tokenizer)
        samples = tokens_of(steps, tokenizer)
        replies = [[token for token, mine in zip(s.ids, s.mask, strict=True) if mine] for s in samples]
        rolled = await rollout(tokenizer, rows, play.task.id, *replies, config=config, **plain)
        assert [row.prompt_ids + row.response_ids for row in rolled.output] == [list(s.ids) for s in samples]
        assert all(row["format_valid"] for row in rolled.rows)
        if len(samples) < plain["max_steps"]:
            assert rolled.output[0].reward_score == pytest.approx(play.ended.reward)


def test_the_limit_is_the_one_of_a_training_on_a_cpu(tmp_path):
    assert evaluation_config(str(tmp_path)).data.max_prompt_length == LONGEST
