"""Which actions an environment admits."""

import pytest

from agent_env.training.actions import Tag
from agent_env.training.sessions import Answer
from agent_env.training.step_game import Game
from agent_env.training.step_moves import Move

ACTIONS = ["search[<your query>]", "click[< prev]", "click[next >]", "go  to <room> with <thing>"]


class Shown:
    """An episode that shows the same actions always."""

    prompt, system_prompt, ended = "Go.", "", None

    def __init__(self):
        self.observation = {"text": "here", "actions": ACTIONS}

    async def call(self, name, arguments):
        return Answer("here", observation=self.observation)


@pytest.mark.parametrize(
    ("action", "admitted"),
    [
        ("search[<your query>]", True),
        ("search[red lamp]", True),
        ("Search[a [b]]", True),
        ("search[]", False),
        ("find search[x]", False),
        ("click[< prev]", True),
        ("CLICK[next >]", True),
        ("click[anything]", False),
        ("go to hall with a cup", True),
        ("go to hall", False),
    ],
)
async def test_an_action_may_fill_in_what_a_named_one_leaves_open(action, admitted):
    game = Game(Shown(), frozenset({"act"}), 1)
    outcome = await game.play(Move.acting(f"<action>{action}</action>", [Tag("action", "act", "action")]))
    assert outcome.admissible == admitted
