"""What the holders of one token may take of a server: sessions at once, and requests a second.

A request over the rate is not refused but held back until its turn, since a refused call would cost its client an
episode. Only one that would wait too long is refused, with what to do about it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from agent_env.errors import AgentEnvError
from agent_env.openenv.admission import Admission

HELD_REQUEST = 5.0
"""Seconds that an HTTP request or a handshake is held back at most; clients give a connection about ten."""
HELD_FRAME = 30.0
"""Seconds that a frame of an open session is held back at most."""


class TooManyRequests(AgentEnvError):
    """A request whose turn would come too late; nothing of it was done.

    Args:
        rate: requests a second that there may be.
        wait: seconds until its turn would have come.
    """

    def __init__(self, rate: float, wait: float) -> None:
        self.wait = wait
        super().__init__(
            f"over {rate:g} requests a second with this token, by {wait:.1f} s: nothing was done; send less at once, "
            "or have the server started with a larger --token-requests"
        )


class Pace:
    """A number of requests a second, of which one second's worth may come at once.

    The generic cell rate algorithm (ITU-T I.371): one number, the time at which the next request is due.

    Args:
        rate: requests a second, at least 1.
    """

    def __init__(self, rate: float) -> None:
        if not 1 <= rate < math.inf:
            raise ValueError(f"expected 1 request a second or more, got {rate}")
        self.rate = rate
        self._due = float("-inf")

    def take(self, now: float, longest: float) -> float:
        """Take the next turn; returns the seconds until it comes, 0 if that is now.

        Args:
            now: on any monotonic clock.
            longest: seconds; a turn that comes later than that is not taken.

        Raises:
            TooManyRequests: it would come too late.
        """
        due = max(self._due, now - 1.0 + 1 / self.rate)
        if due - now > longest:
            raise TooManyRequests(self.rate, due - now)
        self._due = due + 1 / self.rate
        return max(0.0, due - now)


class Holder:
    """All who present one token.

    Args:
        sessions: its own limit of sessions; None for no other than the server's.
        pace: its requests.
        look: brings `revoked` up to date.
    """

    def __init__(self, sessions: Admission | None, pace: Pace, look: Callable[[], None] = lambda: None) -> None:
        self.sessions, self._pace, self._look = sessions, pace, look
        self.revoked = False

    def is_valid(self) -> bool:
        """Whether the token is one of the server's still."""
        self._look()
        return not self.revoked

    async def turn(self, longest: float) -> None:
        """Wait for the turn of one request, `longest` seconds at most. Raises TooManyRequests."""
        wait = self._pace.take(asyncio.get_running_loop().time(), longest)
        if wait:
            await asyncio.sleep(wait)
