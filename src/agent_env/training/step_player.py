"""An episode in the step layout, whoever makes the replies: a prompt, a move, and again, until it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_env.step_prompt import MARK, StepPrompt, View
from agent_env.training.actions import Tag
from agent_env.training.memory import Memory, PastStep, Size
from agent_env.training.step_fit import Fitted, fitted
from agent_env.training.step_game import Game, Outcome
from agent_env.training.step_moves import Move
from agent_env.training.step_options import StepOptions

Json = dict[str, Any]

Tokenize = Callable[[list[Json]], Awaitable[list[int]]]
"""The token ids of the prompt that messages make, with the tools that the model is shown."""


def messages_of(system_prompt: str, message: str | list[Json]) -> list[Json]:
    """The messages of a first prompt, or of a step's: a system prompt, if there is one, and what the user says.

    Args:
        message: a text, or blocks of text and pictures (see `StepPrompt.content`).
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": message}]


@dataclass
class StepPlayer:
    """An episode that is played step by step.

    Args:
        game: just begun.
        memory: of this episode alone.
        tags: that actions are written in, and then the episode ends with its environment too; none if the model calls
            tools, and ends the last turn itself.
        steps: that were played.
        over: whether it came to an end of its own.
    """

    game: Game
    options: StepOptions
    template: StepPrompt
    memory: Memory
    tags: Sequence[Tag]
    steps: int = 0
    over: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether there is another step."""
        return not self.over and self.steps < self.options.max_steps

    async def prompt(self, limit: int, tokenize: Tokenize, size: Size) -> Fitted:
        """The next step's prompt, in at most `limit` tokens. Raises what `fitted` raises."""
        game = self.game
        view = View(
            task=game.session.prompt,
            observation=game.seen,
            step=self.steps + 1,
            max_steps=self.options.max_steps,
            actions=game.actions,
            note=game.note,
            tags=[tag.name for tag in self.tags],
            images=game.images,
        )
        return await fitted(view, self.memory, limit, lambda view: tokenize(self.messages(view)), size)

    def messages(self, view: View) -> list[Json]:
        """The messages that show a view."""
        return messages_of(self.game.session.system_prompt, self.template.content(view))

    async def play(self, move: Move) -> Outcome:
        """Do what the reply to the prompt says. Raises what `Game.play` raises."""
        game = self.game
        before, shown = marked(game.seen, game.images), game.images
        outcome = await game.play(move)
        self.steps += 1
        thought = move.thought if self.options.remember_thoughts else ""
        after = marked(outcome.text, game.images if game.images != shown else ())
        self.memory.add(PastStep(self.steps, before, move.action, after, thought))
        self.over = game.session.ended is not None or (bool(self.tags) and (outcome.terminated or outcome.truncated))
        return outcome


def marked(text: str, images: Sequence[str]) -> str:
    """A text, with a mark for each picture that was seen with it: a memory keeps the words of the past alone."""
    return "\n".join(part for part in (text, *[MARK] * len(images)) if part)
