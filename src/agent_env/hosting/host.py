"""Where the environments of a server run: the `Host` that `bundle.hosting` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agent_env.hosting.handle import Handle

if TYPE_CHECKING:
    from agent_env.bundle import Bundle


class Host(Protocol):
    """Makes an environment for each episode, away from the server's event loop."""

    async def start(self) -> None:
        """Get ready: load code, start workers. Raises EpisodeError if that fails."""
        ...

    async def open(self) -> Handle:
        """A handle for one episode, which must be closed. Raises EpisodeError if no place can be had."""
        ...

    async def close(self) -> None:
        """End everything that runs here, within a bounded time; nothing can be opened after that."""
        ...


def host_for(bundle: Bundle, capacity: int) -> Host:
    """The host that ``bundle.hosting.mode`` names, for at most `capacity` episodes at once."""
    if bundle.hosting.mode == "async":
        from agent_env.hosting.shared_loop import SharedLoopHost

        return SharedLoopHost(bundle)
    if bundle.hosting.mode == "threads":
        from agent_env.hosting.threads import ThreadHost

        return ThreadHost(bundle, capacity)
    from agent_env.hosting.processes import ProcessHost

    return ProcessHost(bundle)
