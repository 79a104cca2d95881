"""Searches, reads and answers; errs by answering with another word of the email."""

from __future__ import annotations

import json
import random
import re

from agent_env import Call, Reply, Turn
from agent_env.demonstrator import Play

from .mail import QUESTIONS


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one turn: the question is known by its prompt, the answer is read from the inbox."""
    question = next(question for question in QUESTIONS if question.prompt == turn.prompt)
    (listing,) = yield Call("search_emails", {"query": question.query})
    (text,) = yield Call("read_email", {"id": json.loads(listing)[0]["id"]})
    found = re.search(question.pattern, text)
    assert found is not None, f"the email does not answer {question.prompt!r}"
    wrong = [word for word in re.findall(r"\w+", text) if word != found[1]]
    yield Reply(rng.choice(wrong) if rng.random() < error_rate else found[1])
