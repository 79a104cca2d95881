"""`agent-env check`: finds what would fail in training by playing a bundle."""

from agent_env.checking.check import CROWD, Report, check_bundle

__all__ = ["CROWD", "Report", "check_bundle"]
