"""``agent-env serve BUNDLE``: the task server."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
    host: Annotated[
        str, typer.Option(help="Address to serve on; 0.0.0.0 for every one this machine has.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 for any free one.")] = 8000,
    token_var: Annotated[
        str | None, typer.Option(help="The environment variable that holds the token clients must send.")
    ] = None,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at once; newcomers wait for one to end.")] = 64,
    admission_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds a newcomer waits before it is told CAPACITY_REACHED.")
    ] = 30.0,
    peer_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without an answer to a ping after which a client counts as gone.")
    ] = 9.0,
) -> None:
    """Serve a bundle's tasks over OpenEnv's protocol until SIGTERM or Ctrl-C."""
    import ipaddress
    import logging

    from agent_env.bundle import load_bundle
    from agent_env.errors import Problems
    from agent_env.openenv import build_app, serve

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    problems = Problems()
    token = None if token_var is None else problems.of(lambda: _token(token_var))
    loaded = problems.of(lambda: load_bundle(bundle))
    problems.settle()
    assert loaded is not None
    app = build_app(loaded, token=token, max_sessions=max_sessions, admission_timeout=admission_timeout)
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if token is None and not is_loopback:
        print(f"agent-env: whoever reaches {host} can run environments: --token-var asks for a token", file=sys.stderr)
    serve(
        app,
        host,
        port,
        peer_timeout=peer_timeout,
        on_ready=lambda url: print(f"serving {loaded.name} on {url}", flush=True),
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # All is torn down. Author code that never returns sits in a thread, and must not keep the process.
    os._exit(0)


def _token(variable: str) -> str:
    from agent_env.errors import InputError

    token = os.environ.get(variable)
    if not token:
        state = "is not set" if token is None else "is empty"
        raise InputError(f"the environment variable {variable!r} {state}: it must hold the token that clients send")
    return token
