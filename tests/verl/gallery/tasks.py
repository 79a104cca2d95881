"""Tasks named by what they are for."""

from agent_env import Task, Turn


def tasks(split):
    """The tasks of a split."""
    made = {"plain": {}, "entrance": {"entrance": "red"}, "large": {"entrance": "red", "size": 160}}
    first, second = (Turn(name, "Which colours are there?", {"type": "env"}) for name in ("first", "second"))
    tasks = [Task(f"{split}-{name}", (first,), "You like colours.", env) for name, env in made.items()]
    return [*tasks, Task(f"{split}-two", (first, second), "", made["entrance"])]
