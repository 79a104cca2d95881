"""How many prompt tokens an episode of 50 steps takes in each layout; `docs/steps.md` has the figures."""

import itertools

import pytest

from agent_env.training.shared import Shared
from support.servers import serving
from support.verl_tier import CORRIDOR, Written, hermes, rollout, trainer_config

STEPS = 50
FIGURES = {
    "conversation": (5305, 26695, 98345),
    "none": (900, 2265, 4531),
    "recent(2)": (1780, 4746, 9687),
    "summary(256)": (2499, 7698, 16389),
    "retrieve(2)": (1780, 4746, 9687),
    "full": (3096, 16806, 64147),
}
"""With Qwen3's tokenizer: prompt tokens up to step 10, 25 and 50."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The corridor's rows in both layouts."""
    folder = tmp_path_factory.mktemp("rows")
    with serving(CORRIDOR) as server:
        shared = Shared(server.url)
        yield {
            name: Written(shared, folder / name, context=name, bundle=CORRIDOR) for name in ("steps", "conversation")
        }


async def prompt_tokens(tokenizer, rows, reply, **options):
    """Prompt tokens up to each step of a walk of 50 steps, each of which shows about 70 tokens."""
    config = trainer_config(prompt_length=8192, response_length=8192)
    made = await rollout(tokenizer, rows, "train-fifty", *[reply] * STEPS, "Done.", config=config, **options)
    return list(itertools.accumulate(len(prompt) for prompt in made.model.prompts[:STEPS]))


async def layouts(tokenizer, rows):
    """Prompt tokens up to each step by layout and memory."""
    walk, call = "<action>east</action>", hermes(("act", {"action": "east"}))
    found = {"conversation": await prompt_tokens(tokenizer, rows["conversation"], call)}
    for memory in ("none", "recent(2)", "summary(256)", "retrieve(2)", "full"):
        options = {"step_prompt": None, "memory": memory, "max_steps": STEPS}
        found[memory] = await prompt_tokens(tokenizer, rows["steps"], walk, **options)
    return found


async def test_tokens_grow_with_the_steps_and_a_conversations_with_their_square(tokenizer, rows):
    found = await layouts(tokenizer, rows)
    # The second twenty steps against the first, the beginning left out, where no memory is full yet.
    growth = {name: (tokens[49] - tokens[29]) / (tokens[29] - tokens[9]) for name, tokens in found.items()}
    for memory in ("none", "recent(2)", "retrieve(2)"):
        assert growth[memory] == pytest.approx(1.0, abs=0.05)
    assert growth["summary(256)"] < 1.3
    assert growth["conversation"] > 1.8
    assert growth["full"] > 1.8
    assert found["conversation"][49] > 4 * found["recent(2)"][49]


async def test_the_figures_in_the_documentation(qwen3, rows):
    found = await layouts(qwen3, rows)
    assert {name: (tokens[9], tokens[24], tokens[49]) for name, tokens in found.items()} == FIGURES
