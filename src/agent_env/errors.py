"""One exception tree, named by the boundary an error crossed.

Every error of a *session* says what its caller should do about it, in `remedy`:

* ``"wait"``: nothing was started; try again within the deadline.
* ``"replay"``: this episode is lost; play the task again on a **new** episode, from its start.
* ``"stop"``: a configuration error; no repetition can help.

A model's own mistake (an unknown tool, malformed arguments) is none of these: it is text for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

T = TypeVar("T")
Remedy = Literal["wait", "replay", "stop"]


class AgentEnvError(Exception):
    """Root of every error this package raises on purpose."""


# --- what an author or a user gave us -------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input: where it is, what is wrong, and what to write instead (may be empty)."""

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" + (f" ({self.fix})" if self.fix else "")
        # One line each: what is wrong may be the text of an exception, which may have several.
        return " ".join(filter(None, map(str.strip, text.splitlines())))


class InputError(AgentEnvError):
    """An input that cannot be used; holds *all* its problems. Commands print it and exit with status 2."""

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = [Problem("", problems)]
        elif isinstance(problems, Problem):
            problems = [problems]
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(p) if p.where else p.what + (f" ({p.fix})" if p.fix else "") for p in self.problems)


class Problems(list[Problem]):
    """The problems that several checks of one input find, gathered so that they are reported at once."""

    def of(self, check: Callable[[], T]) -> T | None:
        """What a check returns; None if it raises `InputError`, whose problems are kept."""
        try:
            return check()
        except InputError as error:
            self += error.problems
            return None

    def settle(self) -> None:
        """Raises InputError with all problems, if there are any."""
        if self:
            raise InputError(self)


class BundleError(InputError):
    """A bundle that cannot be loaded, with every problem found in it."""


class MissingExtra(AgentEnvError):
    """A feature was asked for whose optional dependencies are not installed."""

    def __init__(self, extra: str, module: str) -> None:
        self.extra, self.module = extra, module
        super().__init__(f"{module!r} is not installed: pip install 'agentenv-rl[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.extra, self.module)


# --- inside an episode ----------------------------------------------------------------------------------------


class ToolError(AgentEnvError):
    """Raised by an author's tool to answer the *model*: its message is the tool's answer, marked as an error."""


class EpisodeError(AgentEnvError):
    """The environment cannot go on with this episode: it raised, crashed, ran past its deadline or scored NaN."""


class ScoreError(EpisodeError):
    """A score is missing, NaN, infinite or outside 0..1; names the turn (step id) it belongs to."""


# --- across the network ---------------------------------------------------------------------------------------


class SessionError(AgentEnvError):
    """Something went wrong between a client and a task server; `remedy` says what to do about it."""

    remedy: ClassVar[Remedy] = "stop"


class ServerUnreachable(SessionError):
    """Nothing answers at the URL (refused, reset in the handshake, no route): perhaps a server coming back."""

    remedy = "wait"


class ServerAtCapacity(SessionError):
    """The server has as many sessions, or as many requests a second, as it admits."""

    remedy = "wait"


class SessionLost(SessionError):
    """The socket of a running session closed: its episode is gone and must not be reconnected to."""

    remedy = "replay"


class CallTimedOut(SessionError):
    """A reset, tool call or turn end had no answer within its deadline; the session was closed."""

    remedy = "replay"


class EpisodeFailed(SessionError):
    """The server said that the episode cannot go on (``metadata.status == "error"``)."""

    remedy = "replay"


class TokenRefused(SessionError):
    """The server wants another token than the one sent, or any token at all."""


class NotATaskServer(SessionError):
    """The URL answers, but not as an OpenEnv 0.9+ task server; the message names what is missing."""


class EpisodeUnscored(SessionError):
    """An episode ended without failing and without a reward: the task or its server is set up wrongly."""


class PromptTooLong(SessionError):
    """A task's first prompt, with its tools, has more tokens than the trainer allows."""


class RolloutFailed(AgentEnvError):
    """Every attempt at a rollout failed; `attempts` holds the error of each, oldest first."""

    def __init__(self, message: str, attempts: Sequence[BaseException] = ()) -> None:
        self.attempts: tuple[BaseException, ...] = tuple(attempts)
        super().__init__(message, self.attempts)

    def __str__(self) -> str:
        lines = [str(self.args[0])]
        lines += [f"  attempt {i}: {type(e).__name__}: {e}" for i, e in enumerate(self.attempts, 1)]
        return "\n".join(lines)
