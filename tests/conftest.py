"""Plugins of every tier."""

pytest_plugins = ["pytester", "support.leftovers"]
