"""Does what the task's reference does, in its order; errs by another tool of the domain that needs no argument."""

from __future__ import annotations

import json
import random

from agent_env import Call, Given, Reply, Turn
from agent_env.demonstrator import Play

from .catalogue import MESSAGE, reference, tools


def demonstrate(turn: Turn, rng: random.Random, error_rate: float) -> Play:
    """Play one task; instead of an action there is another one, at random, with probability `error_rate`."""
    (text,) = yield Given()
    given = json.loads(text)["env"]
    domain, solo = given["domain"], given["solo"]
    row = reference(domain, given["task"])
    simple = [tool.name for tool in tools(domain, solo=solo) if not tool.parameters.get("required")]
    for action in row["actions"]:
        if simple and rng.random() < error_rate:
            yield Call(rng.choice(simple))
        elif action["by"] == "assistant" or solo:
            yield Call(action["name"], action["arguments"])
        else:
            told = f"Please do this on your device: {action['name']} {json.dumps(action['arguments'])}"
            yield Call(MESSAGE.name, {"message": told})
    yield Reply(f"It is done. {' '.join(row['told'])}".strip())
