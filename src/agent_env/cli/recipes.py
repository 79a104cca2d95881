"""`agent-env recipes`: the built-in recipes, a line each."""

from __future__ import annotations


def command() -> None:
    """List the recipes that `agent-env train --recipe` takes, and which of them need the step layout."""
    from agent_env.training.verl import settings

    names = settings.available("recipe")
    width = max(map(len, names))
    for name in names:
        about, context = settings.about("recipe", name)
        print(f"{name:<{width}}  {about}{f' ({context})' if context else ''}")
