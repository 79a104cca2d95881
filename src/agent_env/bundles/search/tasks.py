"""The official questions, if they are there, or those that are made of two packages: 1,600 to train on, 400 others."""

from __future__ import annotations

from pathlib import Path

from agent_env import Task, Turn
from agent_env.install.needs import official_data

from .env import SEARCHES
from .made import made_questions
from .official import read_questions

_SYSTEM_PROMPT = (
    "You answer questions with the help of a search engine, which finds three documents at a time. Search for one "
    f"thing after the other, {SEARCHES} times at most, and answer with what the documents say: the name, number or "
    "date alone, without a sentence around it."
)


def tasks(split: str) -> list[Task]:
    """The questions of a split, a task each."""
    folder = official_data(Path(__file__).parent)
    if folder is not None:
        rows = enumerate(read_questions(folder, split))
        return [_task(f"{split}-{n}", question, answers, source) for n, (question, answers, source) in rows]
    made = enumerate(made_questions().splits[split])
    return [_task(f"{split}-{n}", question.question, list(question.answers), question.kind) for n, question in made]


def _task(id: str, question: str, answers: list[str], source: str) -> Task:
    turn = Turn("answer", question, {"type": "env"})
    return Task(id, (turn,), _SYSTEM_PROMPT, {"answers": answers, "source": source}, name=f"{source} {id}".strip())
