"""``agent-env serve BUNDLE``: the task server."""

from __future__ import annotations

import os
from typing import Annotated

import typer


def command(
    bundle: Annotated[str, typer.Argument(help="A bundle's folder, or the name of a built-in one.")],
    host: Annotated[
        str, typer.Option(help="Address to serve on; 0.0.0.0 for every one this machine has.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 for any free one.")] = 8000,
    token_var: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with the token that clients must send.")
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="File with such tokens, one a line; read again when it changes."),
    ] = None,
    ssl_certfile: Annotated[
        str | None, typer.Option(metavar="PATH", help="Certificate (PEM, with its chain), to serve https.")
    ] = None,
    ssl_keyfile: Annotated[
        str | None, typer.Option(metavar="PATH", help="The certificate's key, if it is in a file of its own.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines without asking for a token.")
    ] = False,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions at once; newcomers wait for one to end.")] = 64,
    admission_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds a newcomer waits before it is told CAPACITY_REACHED.")
    ] = 30.0,
    peer_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds without an answer to a ping after which a client counts as gone.")
    ] = 9.0,
    token_sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions at once of one token; --max-sessions if not given.")
    ] = None,
    token_requests: Annotated[
        float, typer.Option(min=1, help="Requests a second of one token, calls among them; more are held back.")
    ] = 1000.0,
    max_message_bytes: Annotated[int, typer.Option(min=1024, help="The longest message, either way.")] = 16777216,
) -> None:
    """Serve a bundle's tasks over OpenEnv's protocol until SIGTERM or Ctrl-C."""
    import logging

    from agent_env.bundle import load_bundle
    from agent_env.cli.command import token_source
    from agent_env.cli.log import BackgroundLog
    from agent_env.errors import Problems
    from agent_env.openenv import build_app, serve
    from agent_env.openenv.server import check_certificate, refuse_strangers

    problems = Problems()
    source = problems.of(lambda: token_source(token_var, token_file))
    if source:
        problems.of(source.read)
    elif source is not None and not insecure:
        problems.of(lambda: refuse_strangers(host))
    problems.of(lambda: check_certificate(ssl_certfile, ssl_keyfile))
    loaded = problems.of(lambda: load_bundle(bundle))
    problems.settle()
    assert loaded is not None
    app = build_app(
        loaded,
        token=source or None,
        max_sessions=max_sessions,
        admission_timeout=admission_timeout,
        max_message_bytes=max_message_bytes,
        token_sessions=token_sessions,
        token_requests=token_requests,
    )
    if token_var is not None:
        # A shell among the tools shows a model its environment; what environments do not have they cannot tell.
        os.environ.pop(token_var, None)
    log = BackgroundLog()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[log])
    try:
        serve(
            app,
            host,
            port,
            peer_timeout=peer_timeout,
            insecure=insecure,
            ssl_certfile=ssl_certfile,
            ssl_keyfile=ssl_keyfile,
            on_ready=lambda url: print(f"serving {loaded.name} on {url}", flush=True),
        )
    finally:
        log.finish()
    # All is torn down. Author code that never returns sits in a thread, and must not keep the process.
    os._exit(0)
