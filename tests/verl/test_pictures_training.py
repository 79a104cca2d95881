"""verl's own trainer on pictures: `agent-env train` on a random Qwen2.5-VL, with real processes, in both layouts."""

import math

import pytest

from agent_env import load_bundle
from agent_env.step_prompt import StepPrompt, View
from agent_env.training.verl import settings
from support.short_runs import trained
from support.tiny_vlm import write_vlm
from support.verl_tier import GALLERY

TASKS, ROLLOUTS, STEPS, MOST = 2, 3, 3, 4


def texts():
    """Prompts of Sokoban's rooms, seen as pictures: the tokenizer makes few tokens of them."""
    bundle = load_bundle("sokoban")
    template = StepPrompt(bundle.step_prompt)
    view = View("Solve the room.", "", 1, 50, actions=("up", "down", "left", "right", "still"), images=("",))
    user = template.render(view)
    return [
        f"<|im_start|>system\n{task.system_prompt}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
        f"<|im_start|>assistant\n<action>{action}</action><|im_end|>\n"
        for task in bundle.tasks("train-pictures")[:2]
        for action in view.actions or ()
    ]


def trains(tmp_path, bundle, splits, texts, *options, apart=1e-3):
    # Weights wide enough that what is seen changes what is drawn.
    model = write_vlm(tmp_path / "model", texts, spread=0.2)
    sizes = (f"data.train_batch_size={TASKS}", f"actor_rollout_ref.rollout.n={ROLLOUTS}")
    sizes += ("data.max_response_length=48", "actor_rollout_ref.actor.ppo_mini_batch_size=2")
    sizes += ("trainer.val_before_train=false", "trainer.test_freq=-1")
    named = ("--train-split", splits[0], "--eval-split", splits[1])
    metrics, traces = trained(tmp_path, bundle, STEPS, *named, *options, *sizes, model=model)
    assert len(traces) == STEPS * TASKS * ROLLOUTS
    assert {trace.status for trace in traces} == {"ok"}
    for data in metrics:
        assert data["episode/count"] == TASKS * ROLLOUTS
        # The trainer sees what the rollout saw, with the same positions: a picture less, and these are far apart.
        assert data["training/rollout_probs_diff_max"] < apart
        assert math.isfinite(data["actor/grad_norm"])
    return metrics, traces


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("recipe", "apart"),
    # verl sends a merged adapter's weights in bfloat16.
    [("gigpo", 1e-3), pytest.param("gigpo_vl_lora", 0.05, marks=pytest.mark.slow)],
)
def test_steps(tmp_path, recipe, apart):
    steps = ("--step", f"max_steps={MOST}", "--step", "max_step_tokens=8")
    splits = ("train-pictures", "eval-pictures")
    metrics, traces = trains(tmp_path, "sokoban", splits, texts(), "--recipe", recipe, *steps, apart=apart)
    played = [step for trace in traces for step in trace.steps]
    assert {len(step.images) for step in played} == {1}
    # A model that knows nothing does nothing: one room, one picture, for each task that was drawn.
    files = {file.name for file in (tmp_path / "runs" / "it" / "traces" / "images").iterdir()}
    assert {f"images/{name}" for name in files} == {path for step in played for path in step.images}
    assert len(files) < len(played)
    for data in metrics:
        assert data["step_group/size/max"] >= ROLLOUTS
        assert data["actor/grad_norm"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_conversations(tmp_path):
    """Of tasks that begin with a picture, a large one, and none: rows with and without are in one batch."""
    prompts = [
        f"<|im_start|>user\nWhich colours are there?<|im_end|>\n<|im_start|>assistant\n{GALLERY}<|im_end|>\n"
    ] * 5
    recipe = ("--recipe", "grpo", "--context", "conversation", "data.max_prompt_length=3072")
    # A model this random gives one token in 200 to placeholders, which the trainer counts and the rollout does not.
    _, traces = trains(tmp_path, GALLERY, ("train", "train"), prompts, *recipe, apart=0.02)
    pictures = {"train-plain": 0, "train-entrance": 1, "train-large": 1, "train-two": 1}
    for trace in traces:
        content = next(message["content"] for message in trace.messages if message["role"] == "user")
        blocks = [] if isinstance(content, str) else [block["type"] for block in content]
        assert blocks.count("image") == pictures[trace.task_id]
    assert len({trace.task_id for trace in traces}) > 2


@pytest.mark.parametrize("recipe", ["gigpo_vl", "gigpo_vl_lora"])
def test_the_recipes_are_of_the_step_layout(recipe):
    about, context = settings.about("recipe", recipe)
    assert (context, "pictures" in about) == ("steps", True)
