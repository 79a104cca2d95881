"""Which actions an environment admits, and which pictures it shows."""

import pytest

from agent_env.step_prompt import StepPrompt
from agent_env.training.actions import Tag
from agent_env.training.sessions import Answer
from agent_env.training.step_game import UNSEEN, Game
from agent_env.training.step_moves import Move
from agent_env.training.step_options import StepOptions
from agent_env.training.step_player import StepPlayer

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


class Pictured(Shown):
    """An episode that shows a picture at first, and then what a test says."""

    def __init__(self, *answers):
        self.observation = {"text": "", "images": ["data:0"]}
        self.answers = list(answers)

    async def call(self, name, arguments):
        return self.answers.pop(0)


def act(action="on"):
    return Move.acting(f"<action>{action}</action>", [Tag("action", "act", "action")])


def seen(*images, text=""):
    return Answer(text, images=images, observation={"text": text, "images": list(images)})


async def test_the_pictures_are_those_that_were_seen_last():
    session = Pictured(seen("data:1"), Answer("no", is_error=True), seen("data:2", "data:3"), seen(text="dark"))
    game = Game(session, frozenset({"act"}), 1, sees=True)
    shown = [game.images]
    for _ in range(4):
        await game.play(act())
        shown.append(game.images)
    # After a mistake, which shows nothing, the last ones are still there to see.
    assert shown == [("data:0",), ("data:1",), ("data:1",), ("data:2", "data:3"), ()]


async def test_a_reply_without_an_action_changes_nothing_of_what_is_seen():
    game = Game(Pictured(), frozenset({"act"}), 1, sees=True)
    state = game.state
    await game.play(Move.acting("hm", [Tag("action", "act", "action")]))
    assert (game.images, game.state) == (("data:0",), state)


async def test_pictures_tell_states_apart_that_the_environment_gives_no_key():
    keys = {Game(Pictured(), frozenset(), 1).state}
    for image in ("data:1", "data:2", "data:1"):
        game = Game(Pictured(seen(image)), frozenset({"act"}), 1, sees=True)
        await game.play(act())
        keys.add(game.state)
    assert len(keys) == 3


async def test_a_model_of_text_alone_sees_none_which_is_said():
    said = []
    game = Game(Pictured(seen("data:1")), frozenset({"act"}), 1, lambda tool, about, text: said.append(text))
    await game.play(act())
    assert game.images == ()
    assert set(said) == {UNSEEN}


async def test_a_memory_is_told_of_pictures_by_marks():
    class Told:
        def __init__(self):
            self.past = []

        def add(self, past):
            self.past.append((past.observation, past.outcome))

        def render(self, observation, budget, size):
            return ""

    session = Pictured(seen("data:1", text="a door"), seen("data:2", "data:3"), Answer("no", is_error=True))
    told = Told()
    game = Game(session, frozenset({"act"}), 1, sees=True)
    player = StepPlayer(game, StepOptions(), StepPrompt(), told, [Tag("action", "act", "action")])
    for _ in range(3):
        await player.play(act())
    assert told.past == [
        ("[picture]", "a door\n[picture]"),
        ("a door\n[picture]", "[picture]\n[picture]"),
        ("[picture]\n[picture]", "no"),
    ]
