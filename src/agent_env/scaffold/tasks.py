"""Tasks to train on and others to evaluate on: one a seed, none in both."""

from __future__ import annotations

from agent_env import Task, Turn

SEEDS = {"train": range(200), "eval": range(10_000, 10_050)}
PROMPT = "A number from 1 to 15 is hidden. Find it in at most 4 guesses, then say what it is."


def tasks(split: str) -> list[Task]:
    """The tasks of a split of bundle.toml."""
    turn = Turn("answer", PROMPT, verifier={"type": "env"})
    return [Task(f"number-{seed}", (turn,), "Play with the tool guess.", seed=seed) for seed in SEEDS[split]]
