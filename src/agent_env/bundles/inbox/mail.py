"""Inboxes by number: three emails made from a few names, places and figures, and four questions about them."""

from __future__ import annotations

import random
from dataclasses import dataclass

_NAMES = ("Amara", "Bjorn", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kaya", "Liam")
_PROJECTS = ("roof", "harbour", "library", "bridge", "garden", "museum")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_CITIES = ("Lyon", "Turin", "Ghent", "Porto", "Graz", "Basel")


@dataclass(frozen=True)
class Email:
    """One email; `id` is ``mail-1`` to ``mail-3``."""

    id: str
    sender: str
    subject: str
    body: str


@dataclass(frozen=True)
class Question:
    """A question whose answer is in one email: the one that `query` finds, at the group of `pattern` in its text."""

    prompt: str
    query: str
    pattern: str


QUESTIONS = (
    Question("In which room is the project meeting?", "meeting", r"in room (\w+)"),
    Question("How many euros is the invoice for?", "invoice", r"for (\d+) euros"),
    Question("From which platform does the train leave?", "train", r"platform (\d+)"),
    Question("Who sent the email about the meeting?", "meeting", r"From: (\w+)"),
)


def make_inbox(number: int) -> tuple[Email, ...]:
    """The three emails of inbox `number`, always the same for it, in an order of its own."""
    rng = random.Random(number)
    senders = rng.sample(_NAMES, 3)
    room = f"{rng.choice('ABCDEFGH')}{rng.randint(101, 499)}"
    letters = [
        (
            f"Meeting about the {rng.choice(_PROJECTS)}",
            f"We meet on {rng.choice(_DAYS)} at {rng.randint(8, 17)}:30 in room {room}.",
        ),
        (
            f"Invoice {rng.randint(10000, 99999)}",
            f"This invoice is for {rng.randint(101, 999)} euros, to be paid within {rng.choice((10, 14, 30))} days.",
        ),
        (
            f"Your train to {rng.choice(_CITIES)}",
            f"The train leaves at {rng.randint(6, 22)}:15 from platform {rng.randint(1, 24)}.",
        ),
    ]
    rng.shuffle(letters)
    return tuple(
        Email(f"mail-{place}", sender, subject, body)
        for place, (sender, (subject, body)) in enumerate(zip(senders, letters, strict=True), 1)
    )


def as_text(email: Email) -> str:
    """An email as it is read."""
    return f"From: {email.sender}\nSubject: {email.subject}\n\n{email.body}"
