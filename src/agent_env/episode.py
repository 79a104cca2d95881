"""One play of a task: start, tool calls, the end of each turn, scores, reward."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agent_env.deadline import Deadline
from agent_env.errors import EpisodeError, ScoreError
from agent_env.observation import Observation
from agent_env.task import Task, Turn
from agent_env.tools import ToolResult

if TYPE_CHECKING:
    from agent_env.bundle import Bundle
    from agent_env.hosting.handle import Handle

_Answer = TypeVar("_Answer")
_State = Literal["new", "open", "over", "closed"]


@dataclass(frozen=True)
class Ended:
    """How an episode ended: its reward, and every score by step id (``turn`` or ``turn/name``)."""

    reward: float
    scores: dict[str, float]


class Episode:
    """A task being played in one environment.

    A call at a time: `start` once, then any number of `call`, an `end_turn` for each turn, `close` at last. What the
    environment fails, a call that is cancelled, and a deadline of ``bundle.limits`` that passes, end the episode: it
    raises EpisodeError from then on, and there is no score.

    Args:
        handle: of an environment that no other episode uses.
        seed: of this play; the task's own if None.
    """

    def __init__(self, bundle: Bundle, task: Task, handle: Handle, seed: int | None = None) -> None:
        self.bundle, self.task = bundle, task
        self.seed = task.seed if seed is None else seed
        self.step_count = 0
        self._handle = handle
        self._deadline = Deadline()
        self._turn = 0
        self._scores: dict[str, float] = {}
        self._state: _State = "new"
        self._failure = ""
        self._over = False

    @property
    def turn(self) -> Turn:
        """The turn that is open (the last one, after the end)."""
        return self.task.turns[self._turn]

    @property
    def turn_index(self) -> int:
        """Position of `turn` in the task, from 0."""
        return self._turn

    async def start(self) -> Observation | None:
        """Set the scene; returns the environment's first observation. Raises EpisodeError."""
        self._expect("new")
        seen = await self._within("reset", "reset_timeout", self._handle.reset(self.task, self.seed))
        self._state = "open"
        self._over = seen is not None and seen.over
        return None if seen is None else self._bounded("reset", ToolResult(seen.text, observation=seen)).observation

    async def call(self, name: str, arguments: Any) -> ToolResult:
        """Call a tool. A model's own mistake is an answer with `is_error`; raises EpisodeError for a failure."""
        self._expect("open")
        self.step_count += 1
        if self._over:
            return ToolResult(
                "The environment has reached its end; nothing more can be done in it.", True, "tool_error"
            )
        result = await self._within(f"tool {name!r}", "call_timeout", self._handle.call(name, arguments))
        self._over = result.observation is not None and result.observation.over
        return self._bounded(f"tool {name!r}", result)

    async def end_turn(self, response: str) -> Turn | Ended:
        """Score the open turn with the agent's reply; returns the next turn, or the end.

        Raises:
            ScoreError: a score is missing, no finite number or outside 0..1, or the reward cannot be made of them.
            EpisodeError: the environment failed.
        """
        self._expect("open")
        self.step_count += 1
        turn = self.turn
        if turn.verifier is not None:
            what = f"the score of turn {turn.id!r}"
            score = await self._within(what, "score_timeout", self._handle.score(response, turn))
            self._scores |= self._guarded(lambda: _by_step(turn.id, score))
        if self._turn + 1 < len(self.task.turns):
            self._turn += 1
            return self.turn
        reward = self._guarded(lambda: self.bundle.reward(self._scores))
        self._state = "over"
        return Ended(reward, dict(self._scores))

    async def close(self) -> None:
        """Let go of the environment; safe to call at any time and twice. Raises EpisodeError if it cannot close."""
        if self._state != "closed":
            self._state = "closed"
            try:
                await self._within("close", "call_timeout", self._handle.close())
            finally:
                self._deadline.forget()

    def _expect(self, state: _State) -> None:
        if self._failure:
            raise EpisodeError(self._failure)
        if self._state != state:
            words = {"new": "has not started", "open": "is running already", "over": "has ended", "closed": "is closed"}
            raise EpisodeError(f"the episode {words[self._state]}")

    async def _within(self, what: str, limit: str, awaitable: Awaitable[_Answer]) -> _Answer:
        """Await the handle under a deadline of the bundle; any failure is the episode's end."""
        seconds: float = getattr(self.bundle.limits, limit)
        try:
            return await self._deadline.within(seconds, awaitable)
        except BaseException as error:
            self._failure = str(error) or f"{what} was cancelled"
            if not (isinstance(error, TimeoutError) and self._deadline.expired):
                raise
            self._failure = f"{what} ran past {seconds:g} s (limits.{limit} of bundle.toml)"
            raise EpisodeError(self._failure) from error

    def _guarded(self, compute: Any) -> Any:
        try:
            return compute()
        except EpisodeError as error:
            self._failure = str(error)
            raise

    def _bounded(self, what: str, result: ToolResult) -> ToolResult:
        """`result` with at most ``limits.max_answer_bytes``: text is cut, and says so; images cannot be."""
        most = self.bundle.limits.max_answer_bytes
        seen = result.observation
        if seen is not None and (size := sum(map(len, seen.images))) > most:
            self._failure = f"{what} answered with {size} bytes of images, over limits.max_answer_bytes ({most})"
            raise EpisodeError(self._failure)
        text = _cut(result.text, most)
        if text is result.text:
            return result
        return replace(result, text=text, data=None, observation=None if seen is None else replace(seen, text=text))


def _cut(text: str, most: int) -> str:
    if len(text) * 4 <= most or (size := len(encoded := text.encode("utf-8", "surrogatepass"))) <= most:
        return text
    return encoded[:most].decode("utf-8", "ignore") + f"\n[cut here: the answer has {size} bytes, the limit is {most}]"


def _by_step(step: str, score: Any) -> dict[str, float]:
    """The scores that a verifier gave for the turn `step`, checked. Raises ScoreError."""
    if isinstance(score, Mapping):
        if not score:
            raise ScoreError(f"step {step!r}: the score is an empty table")
        return {f"{step}/{name}": _checked(f"{step}/{name}", value) for name, value in score.items()}
    return {step: _checked(step, score)}


def _checked(step: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise ScoreError(f"step {step!r}: the score is {value!r:.80}, expected a number in 0..1")
    number = float(value)
    if not math.isfinite(number) or not 0.0 <= number <= 1.0:
        raise ScoreError(f"step {step!r}: the score is {number}, expected a number in 0..1")
    return number
