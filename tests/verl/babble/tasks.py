"""A few tasks, no two alike."""

from agent_env import Task, Turn

WORDS = ("apples", "bread", "cheese", "dates", "eggs", "figs")


def tasks(split):
    """The tasks of a split."""
    words = WORDS[:4] if split == "train" else WORDS[4:]
    return [Task(f"{split}-{word}", tuple(_turn(number, word) for number in "123"), "You babble.") for word in words]


def _turn(number, word):
    return Turn(f"say-{number}", f"Say something of {word}, please ({number} of 3).", {"type": "env"})
