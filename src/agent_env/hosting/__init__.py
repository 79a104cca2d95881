"""Where environment code runs: threads or worker processes, never the event loop of the server."""
