"""An episode as the step layout plays it: what is seen now, and what a move makes of it. Knows no trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_env.observation import Observation
from agent_env.tools import END_TURN
from agent_env.training.actions import ACT
from agent_env.training.end_turn import EPISODE_ENDED, NOT_ENDED, reply_of, too_late
from agent_env.training.sessions import Answer, Ended, NextTurn
from agent_env.training.step_moves import Call, Move

UNSEEN = "the environment answered with images, and this model is shown text alone"

Warn = Callable[[str, str, str], None]
"""Told of a tool, in a word what is to be warned of, and the warning."""


class Playable(Protocol):
    """What an episode is played on: a `Session`, or what behaves like one.

    Attributes:
        prompt, system_prompt: of the open turn.
        observation: the first one, a dict with the fields of `agent_env.Observation`; None if there is none.
        ended: the episode's end once it came.
    """

    prompt: str
    system_prompt: str
    observation: dict[str, Any] | None
    ended: Ended | None

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool."""

    async def end_turn(self, response: str) -> NextTurn | Ended:
        """End the open turn; `prompt` is then the next one's."""


@dataclass(frozen=True)
class Outcome:
    """What a move led to.

    Args:
        text: what came back.
        admissible: whether the environment admits what was done.
        reward: of the step, the sum over its calls; None if no answer was an observation.
        terminated, truncated: whether the environment came to its end, or stopped for another reason.
    """

    text: str
    admissible: bool = True
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False


class Game:
    """The episode so far, as the next prompt needs it.

    Args:
        session: just reset.
        offered: names of the tools that the model is shown, ``end_turn`` among them if it is.
        most_calls: of one message that are made.
        warn: told of what the model cannot be shown.
        sees: whether the model is shown pictures.

    Attributes:
        seen: text of what the environment shows now.
        images: URLs of the pictures that it shows now, if the model sees any.
        actions: the admissible ones, if the environment names them.
        state: key of the state.
        note: what was wrong with the last reply; "" if nothing.
        success: what the environment last said of it; None if it said nothing.
        turns: of the task that were opened.
        calls: made so far.
    """

    def __init__(
        self,
        session: Playable,
        offered: frozenset[str],
        most_calls: int,
        warn: Warn = lambda tool, about, text: None,
        *,
        sees: bool = False,
    ) -> None:
        self.session = session
        self._offered, self._most_calls, self._warn, self._sees = offered, most_calls, warn, sees
        self.note = ""
        self.success: bool | None = None
        self.turns, self.calls = 1, 0
        self._show(session.observation, "", images_of(session.observation))

    async def play(self, move: Move) -> Outcome:
        """Do what a reply says, once. Raises what `Session.call` and `Session.end_turn` raise."""
        self.note = move.problem
        if move.response is not None:
            return await self._end_turn(move.response)
        if not move.calls:
            return Outcome(move.problem, admissible=True)
        turn = self.turns
        answers: list[Answer] = []
        for call in move.calls[: self._most_calls]:
            if self.turns > turn or self.session.ended is not None:
                answers.append(Answer(too_late(call.name), is_error=True))
            else:
                answers.append(await self._answer(call))
        unrun = len(move.calls) - self._most_calls
        if unrun > 0:
            text = f"{unrun} more calls were not run: at most {self._most_calls} in one message are."
            answers.append(Answer(text, is_error=True))
        return self._outcome(move, answers, new_turn=self.turns > turn)

    async def _answer(self, call: Call) -> Answer:
        if call.problem:
            return Answer(call.problem, is_error=True)
        if call.name not in self._offered:
            return Answer(
                f"Unknown function {call.name!r}. There are: {', '.join(sorted(self._offered))}.", is_error=True
            )
        if call.name == END_TURN:
            response = reply_of(call.arguments)
            if response is None:
                return Answer(NOT_ENDED, is_error=True)
            return Answer((await self._end_turn(response)).text)
        self.calls += 1
        return await self.session.call(call.name, call.arguments)

    async def _end_turn(self, response: str) -> Outcome:
        outcome = await self.session.end_turn(response)
        if isinstance(outcome, Ended):
            return Outcome(EPISODE_ENDED, terminated=True)
        self.turns += 1
        self._show(outcome.observation, "", images_of(outcome.observation))
        return Outcome(outcome.prompt)

    def _outcome(self, move: Move, answers: list[Answer], *, new_turn: bool) -> Outcome:
        texts = [answer.text for answer in answers]
        if len(answers) > 1:
            names = [*(call.name for call in move.calls[: self._most_calls]), ""]
            texts = [f"{name}: {text}" if name else text for name, text in zip(names, texts, strict=False)]
        text = "\n".join(texts)
        observed = [answer.observation for answer in answers if answer.observation is not None]
        refused = any(answer.is_error for answer in answers)
        admissible = not refused and self._named(move)
        if not new_turn:  # else what is seen is the new turn's
            images = tuple(image for answer in answers for image in answer.images)
            # Where nothing was observed, as after a mistake, the last pictures are still what there is to see.
            self._show(observed[-1] if observed else None, text, images if observed or images else self.images)
        ended = self.session.ended is not None or any(seen.get("terminated") is True for seen in observed)
        return Outcome(
            text,
            admissible,
            reward=sum(float(seen.get("reward") or 0.0) for seen in observed) if observed else None,
            terminated=ended,
            truncated=not ended and any(seen.get("truncated") is True for seen in observed),
        )

    def _named(self, move: Move) -> bool:
        """Whether an action is among those that were named, if any were."""
        if self.actions is None or [call.name for call in move.calls] != [ACT]:
            return True
        return any(_admits(action, move.action) for action in self.actions)

    def _show(self, observation: Mapping[str, Any] | None, text: str, images: Sequence[str]) -> None:
        said = observation or {}
        if images and not self._sees:
            self._warn("", "images", UNSEEN)
        self.images = tuple(images) if self._sees else ()
        actions, state, info = said.get("actions"), said.get("state"), said.get("info")
        self.seen = text or str(said.get("text") or "")
        self.actions = tuple(map(str, actions)) if isinstance(actions, list | tuple) else None
        # The turn is part of a state that the environment gives no key.
        self.state = (
            state
            if isinstance(state, str)
            else Observation(f"{self.session.prompt}\n{self.seen}", images=tuple(images)).key
        )
        if isinstance(info, Mapping) and isinstance(info.get("success"), bool):
            self.success = info["success"]


def images_of(observation: Mapping[str, Any] | None) -> tuple[str, ...]:
    """URLs of an observation's pictures."""
    images = (observation or {}).get("images")
    return tuple(map(str, images)) if isinstance(images, list | tuple) else ()


_LEFT_OPEN = re.compile(r"<[^<>]+>")


def _admits(named: str, action: str) -> bool:
    """Whether an action is the one that was named, or fills in what it leaves open: ``search[<your query>]``."""
    named, action = " ".join(named.split()).casefold(), action.casefold()
    if named == action:
        return True
    parts = [re.escape(part) for part in _LEFT_OPEN.split(named)]
    return len(parts) > 1 and re.fullmatch(".+".join(parts), action, re.DOTALL) is not None
