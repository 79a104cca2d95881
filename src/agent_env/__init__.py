"""AgentEnv: from an environment and its tasks to a trained agent."""
