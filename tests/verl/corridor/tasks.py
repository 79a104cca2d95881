"""Tasks named by what they are for."""

from agent_env import Task, Turn


def tasks(split):
    """The tasks of a split."""
    made = {
        "three": {},
        "one": {"length": 1},
        "limited": {"length": 9, "limit": 2},
        "lost-once": {"lost": 1},
        "lost": {"lost": 1000},
        "wordy": {"words": 400},
        "unnamed": {"named": False, "says": False},
        "fifty": {"length": 50, "words": 10},
    }
    turn = Turn("goal", "Walk to the east end.", {"type": "env"})
    if split == "long":
        return [Task("long-endless", (Turn("goal", "Walk. " * 400, {"type": "env"}),), "You walk.")]
    names = ["one", "three"] if split == "eval" else made
    return [Task(f"{split}-{name}", (turn,), "You walk.", made[name]) for name in names]
