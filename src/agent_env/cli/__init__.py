"""The `agent-env` command, one file per subcommand."""
