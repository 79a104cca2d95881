"""Runs code that is known to do the task, block by block; errs by running something that fails, and then goes on."""

from __future__ import annotations

import json
import random

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .data import steps

SLIPS = ("print(apis.supervisor.show_password())", "token = apis.phone.login()", "print(undefined)", "apis.help()")


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one task; before each block, an error is made with probability `error_rate`."""
    (given,) = yield Given()
    for block in steps(json.loads(given)["env"]["task"]) or []:
        if rng.random() < error_rate:
            yield Call("execute", {"code": rng.choice(SLIPS)})
        yield Call("execute", {"code": block})
    yield Reply("done")
