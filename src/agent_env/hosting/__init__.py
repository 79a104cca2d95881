"""Where environment code runs: threads or worker processes, never the event loop of the server."""

from agent_env.hosting.handle import Handle

__all__ = ["Handle"]
