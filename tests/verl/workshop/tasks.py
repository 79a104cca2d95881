"""The same tasks in both splits, named by what they are for."""

from agent_env import Task, Turn


def _said(step, text):
    return Turn(step, f"Say {text}.", {"type": "contains", "text": text})


def tasks(split):
    """The tasks of a split."""
    made = [
        Task("one", (_said("word", "red"),), "Be brief."),
        Task("two", (_said("first", "red"), _said("second", "blue")), "Be brief."),
        Task("lost-once", (_said("word", "red"),), env={"lost": 1}),
        Task("lost", (_said("word", "red"),), env={"lost": 1000}),
        Task("scored-slowly", (Turn("work", "Work.", {"type": "env"}),), env={"scoring": 0.5}),
        Task("shown", (_said("word", "red"),), env={"shown": "You stand in a workshop."}),
        Task("long", (Turn("word", "red " * 1500, {"type": "contains", "text": "red"}),)),
    ]
    return [Task(f"{split}-{t.id}", t.turns, t.system_prompt, t.env) for t in made]
