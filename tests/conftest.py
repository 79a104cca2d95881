"""Plugins of every tier."""

from hypothesis import settings

pytest_plugins = ["pytester", "support.leftovers"]

# A law holds however busy the machine is: no deadline per example.
settings.register_profile("agent_env", deadline=None)
settings.load_profile("agent_env")
