"""All sessions of a server: admission, and those made over HTTP that wait for their socket.

A session belongs to one socket and ends with it. OpenEnv's MCPToolClient makes its session by an HTTP request first and
then attaches a socket; until it does, the session holds its slot by a lease that runs out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from agent_env.errors import AgentEnvError
from agent_env.openenv.admission import Admission, Slot
from agent_env.openenv.catalogue import Catalogue
from agent_env.openenv.holders import Holder
from agent_env.openenv.session import Session

logger = logging.getLogger(__name__)

LEASE = 30.0
"""Seconds that a session made over HTTP waits for its socket."""
SHUTDOWN_TIMEOUT = 5.0
"""Seconds for everything that is closing, and then for the hosts, when the server ends."""


class UnknownSession(AgentEnvError):
    """No session of that id waits for a socket, or runs."""


@dataclass
class _Made:
    """A session made over HTTP."""

    session: Session
    slot: Slot
    lease: asyncio.TimerHandle
    attached: bool = False


class Sessions:
    """Opens sessions, and ends what is left of them.

    Args:
        max_message: bytes that one message may have on the wire, either way.
    """

    def __init__(self, catalogue: Catalogue, admission: Admission, max_message: int) -> None:
        self.catalogue, self.admission, self.max_message = catalogue, admission, max_message
        self._closing: set[asyncio.Task[None]] = set()
        self._made: dict[str, _Made] = {}
        self._started = False

    async def start(self) -> None:
        """Get every host ready; does nothing the second time. Raises EpisodeError."""
        if not self._started:
            self._started = True
            for host in self.catalogue.hosts:
                await host.start()

    async def open(self, holder: Holder | None = None) -> tuple[Session, Slot]:
        """A session with its slot, which the caller gives back. Raises AtCapacity.

        Args:
            holder: who asks for it, on a server with tokens.
        """
        slot = await self.admission.enter(None if holder is None else holder.sessions)
        return Session(self.catalogue, self._closing, self.max_message), slot

    async def make(self, holder: Holder | None = None) -> str:
        """A session that waits for a socket; returns its id. Raises AtCapacity."""
        session, slot = await self.open(holder)
        name = secrets.token_urlsafe(16)
        lease = asyncio.get_running_loop().call_later(LEASE, self._run_out, name)
        self._made[name] = _Made(session, slot, lease)
        return name

    def attach(self, name: str) -> tuple[Session, Slot]:
        """The session `name` for the one socket it may have. Raises UnknownSession."""
        made = self._made.get(name)
        if made is None:
            raise UnknownSession(f"Unknown session_id: {name:.80}")
        if made.attached:
            raise UnknownSession(f"Session {name} already has an attached WebSocket")
        made.attached = True
        made.lease.cancel()
        return made.session, made.slot

    def find(self, name: str) -> Session:
        """The session `name`, made over HTTP. Raises UnknownSession."""
        if name not in self._made:
            raise UnknownSession(f"Unknown session_id: {name:.80}")
        return self._made[name].session

    async def end(self, session: Session, slot: Slot) -> None:
        """Close a session and give its slot back."""
        for name in [name for name, made in self._made.items() if made.session is session]:
            self._made.pop(name).lease.cancel()
        try:
            await session.close()
        finally:
            slot.release()

    async def discard(self, name: str) -> None:
        """End a session that no socket is attached to. Raises UnknownSession."""
        made = self._made.get(name)
        if made is None or made.attached:
            raise UnknownSession(f"Unknown session_id: {name:.80}")
        await self.end(made.session, made.slot)

    async def shutdown(self) -> None:
        """End everything, within twice `SHUTDOWN_TIMEOUT`."""
        for made in list(self._made.values()):
            await self.end(made.session, made.slot)
        if self._closing:
            _, late = await asyncio.wait(list(self._closing), timeout=SHUTDOWN_TIMEOUT)
            for task in late:
                task.cancel()
            if late:
                logger.warning("%d environments did not close within %.0f s", len(late), SHUTDOWN_TIMEOUT)
        closing = [asyncio.create_task(host.close()) for host in self.catalogue.hosts]
        await asyncio.wait(closing, timeout=SHUTDOWN_TIMEOUT)

    def _run_out(self, name: str) -> None:
        made = self._made.get(name)
        if made is not None and not made.attached:
            logger.warning("a session made over HTTP got no WebSocket within %.0f s and is closed", LEASE)
            task = asyncio.get_running_loop().create_task(self.end(made.session, made.slot))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
