"""Who plays the customer: a model behind an OpenAI-compatible endpoint, named by environment variables, or nobody."""

from __future__ import annotations

import os
from typing import Any

URL = "AGENT_ENV_TAU2_USER_URL"
MODEL = "AGENT_ENV_TAU2_USER_MODEL"
KEY = "AGENT_ENV_TAU2_USER_KEY"
TIMEOUT = "AGENT_ENV_TAU2_USER_TIMEOUT"
SECONDS = 60.0
"""For one answer of the model, if `TIMEOUT` is not set."""


def customer() -> dict[str, Any] | None:
    """The model as `engine.py` takes it: ``url``, ``model``, ``key``, ``timeout`` in seconds; None for nobody.

    Raises:
        ValueError: with all that is wrong with the variables.
    """
    url, model = os.environ.get(URL, ""), os.environ.get(MODEL, "")
    problems = []
    if url and not url.startswith(("http://", "https://")):
        problems.append(f"{URL}: expected a URL such as http://127.0.0.1:8000/v1, got {url!r}")
    if bool(url) != bool(model):
        problems.append(f"{URL if model else MODEL} is not set: the one needs the other")
    seconds = SECONDS
    try:
        seconds = float(os.environ.get(TIMEOUT, "") or SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        problems.append(f"{TIMEOUT}: expected seconds above 0, got {os.environ[TIMEOUT]!r}")
    if problems:
        raise ValueError("; ".join(problems))
    # An endpoint without keys is sent one nevertheless: clients insist on having one.
    return {"url": url, "model": model, "key": os.environ.get(KEY) or "none", "timeout": seconds} if url else None
