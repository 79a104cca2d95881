"""``end_turn`` as a model calls it: the reply in its arguments, and what either loop answers where it ends nothing."""

from __future__ import annotations

from typing import Any

NOT_ENDED = 'The turn was not ended: end_turn takes one argument, {"response": <your answer as a string>}.'
"""The answer to arguments that hold no reply."""
EPISODE_ENDED = "The episode has ended."
"""The answer to the end of the last turn."""


def reply_of(arguments: Any) -> str | None:
    """The reply that the model gives the turn, or None: its arguments are others than one string, ``response``."""
    response = arguments.get("response") if isinstance(arguments, dict) and len(arguments) == 1 else None
    return response if isinstance(response, str) else None


def too_late(name: str) -> str:
    """The answer to a call of the tool `name` that stands behind an ``end_turn`` in one message."""
    return f"{name} was not run: end_turn had already ended the turn that this call was written for."
