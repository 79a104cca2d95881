"""Four tasks an inbox; each asks two of its four questions, the second once the first is answered."""

from __future__ import annotations

import re

from agent_env import Task, Turn

from .mail import QUESTIONS, Question, as_text, make_inbox

_SYSTEM_PROMPT = (
    "You answer questions about an inbox of three emails. Find the right email with search_emails and read it with "
    "read_email. Reply with the answer alone."
)
_INBOXES = {"train": range(25), "eval": range(1000, 1010)}


def tasks(split: str) -> list[Task]:
    """The tasks of ``train`` (100) or ``eval`` (40)."""
    return [_task(number, first) for number in _INBOXES[split] for first in range(len(QUESTIONS))]


def _task(number: int, first: int) -> Task:
    second = (first + 1) % len(QUESTIONS)
    turns = tuple(_turn(f"answer-{place}", number, QUESTIONS[i]) for place, i in enumerate((first, second), 1))
    return Task(f"inbox-{number}-{first + 1}", turns, _SYSTEM_PROMPT, {"inbox": number})


def _turn(step: str, number: int, question: Question) -> Turn:
    return Turn(step, question.prompt, {"type": "regex", "pattern": rf"\b{re.escape(answer(number, question))}\b"})


def answer(number: int, question: Question) -> str:
    """The answer to `question`, read from the one email of inbox `number` that holds it."""
    texts = [as_text(email) for email in make_inbox(number)]
    (found,) = (
        match[1] for text in texts if question.query in text.lower() and (match := re.search(question.pattern, text))
    )
    return found
