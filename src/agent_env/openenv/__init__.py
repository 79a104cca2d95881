"""The task server: OpenEnv's protocol, with a token, admission, deadlines and tidy ends."""

from agent_env.openenv.app import build_app
from agent_env.openenv.server import serve

__all__ = ["build_app", "serve"]
