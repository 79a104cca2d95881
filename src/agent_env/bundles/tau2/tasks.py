"""tau2-bench's tasks in its own splits: of all domains with a customer, else the tickets of the one without."""

from __future__ import annotations

from typing import Any

from agent_env import Task, Turn

from .catalogue import DOMAINS, SOLO, catalogue
from .customer import customer

_SOLO = """\
You are a customer service agent. You are given a ticket, and tools for the company's systems and for the \
customer's device; there is nobody to talk to. Solve the ticket as the policy says, one tool call at a time. When it \
is solved, or cannot be, say so in a message without a tool call: that closes the ticket."""
_WITH_CUSTOMER = """\
You are a customer service agent. Help the customer as the policy says, one tool call at a time. Whatever you say to \
the customer you say with the tool message_user. They end the conversation when they have what they want; a message \
of yours without a tool call ends it, too."""


def tasks(split: str) -> list[Task]:
    """The tasks of ``train``, or of ``eval``, which is tau2-bench's test split."""
    solo = customer() is None
    return [_task(domain, row, solo) for domain in ((SOLO,) if solo else DOMAINS) for row in _rows(domain, split)]


def _rows(domain: str, split: str) -> list[dict[str, Any]]:
    return [row for row in catalogue()[domain]["tasks"] if row["split"] == split]


def _task(domain: str, row: dict[str, Any], solo: bool) -> Task:
    policy = catalogue()[domain]["solo_policy" if solo else "policy"]
    system = f"{_SOLO if solo else _WITH_CUSTOMER}\n\n<policy>\n{policy.strip()}\n</policy>"
    prompt = "Solve this ticket." if solo else "A customer gets in touch with you."
    env = {"domain": domain, "task": row["id"], "solo": solo}
    return Task(f"{domain}-{row['id']}", (Turn(domain, prompt, {"type": "env"}),), system, env)
