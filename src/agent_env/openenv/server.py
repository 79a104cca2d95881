"""Runs the application on uvicorn, with the settings it is meant for, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import ipaddress
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette

from agent_env.errors import InputError, Problem
from agent_env.hosting.guardian import Guardian
from agent_env.openenv.protocol import ServerProtocol
from agent_env.openenv.sessions import Sessions

logger = logging.getLogger(__name__)

GRACE = 5
"""Seconds for the sessions to end at shutdown, before they are cancelled."""
HTTP_KEEP_ALIVE = 75
"""Seconds that an idle HTTP connection is kept; longer than clients keep theirs, so that they are the ones to close."""
HELD = 30.0
"""Seconds without a turn of the event loop after which the server ends: every session is lost by then."""
MAX_FILES = 65536
BACKLOG = 1024
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    app: Starlette,
    host: str,
    port: int,
    *,
    peer_timeout: float = 9.0,
    insecure: bool = False,
    ssl_certfile: str | None = None,
    ssl_keyfile: str | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until told to stop; then end every session and environment, within a bounded time, and return.

    Args:
        app: made by `build_app`.
        port: 0 for any free one.
        peer_timeout: seconds of silence (no answer to a ping) after which a client counts as gone.
        insecure: whether an application without a token may be served to other machines.
        ssl_certfile, ssl_keyfile: uvicorn's: the certificate and its chain, and its key, for https; no key if the first
            file has both.
        on_ready: called with the server's URL once it answers.

    Raises:
        InputError: the certificate or the address cannot be used, or the address is one that others reach and the
            application asks for no token.
        EpisodeError: the environments cannot be started.
    """
    if not (app.state.asks_for_token or insecure):
        refuse_strangers(host)
    check_certificate(ssl_certfile, ssl_keyfile)
    listener = listen(host, port, peer_timeout)
    _allow_many_files()
    guardian = Guardian()
    try:
        config = uvicorn.Config(
            app,
            http=_http_protocol(),
            ws=ServerProtocol,
            ws_max_size=app.state.sessions.max_message,
            # A ping answered late by a client that is merely busy is no reason to end its episode: most of the time
            # goes to waiting for the answer, little to waiting before asking.
            ws_ping_interval=peer_timeout / 4,
            ws_ping_timeout=peer_timeout * 3 / 4,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=HTTP_KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
            ssl_certfile=ssl_certfile,
            ssl_keyfile=ssl_keyfile,
        )
        scheme = "http" if ssl_certfile is None else "https"
        server = _Server(config, lambda: on_ready(url_of(listener, scheme)))
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_run(server, app.state.sessions, listener))
    finally:
        listener.close()
        guardian.close()


def _http_protocol() -> Any:
    """Ours on httptools if that is installed (the extra ``fast``), or uvicorn's on h11."""
    try:
        from agent_env.openenv.http_protocol import HttpProtocol
    except ModuleNotFoundError:
        return "h11"
    return HttpProtocol


async def _run(server: uvicorn.Server, sessions: Sessions, listener: socket.socket) -> None:
    # Environments start before the server does: what they fail with is an error here then, not a log of uvicorn's.
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in SIGNALS:
        loop.add_signal_handler(number, this.cancel)
    try:
        await sessions.start()
    except asyncio.CancelledError:
        await sessions.shutdown()
        return
    except BaseException:
        await sessions.shutdown()
        raise
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            # uvicorn raises the signal that ended it once more when it is done: for whoever set this handler.
            signal.signal(number, lambda *_: None)
    alive = asyncio.create_task(_show_life())
    try:
        await server.serve(sockets=[listener])
    finally:
        alive.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _show_life() -> None:
    """Have the process ended, with where each thread is on stderr, once this has had no turn for `HELD` seconds.

    Code in C that keeps the interpreter's lock (a regular expression that backtracks for ever, say) stops all threads
    of the process, its event loop and its handlers of signals. The timer needs no lock.
    """
    while True:
        faulthandler.dump_traceback_later(HELD, exit=True)
        await asyncio.sleep(HELD / 10)


class _Server(uvicorn.Server):
    """uvicorn's, telling when it answers."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()


def refuse_strangers(host: str) -> None:
    """Raises InputError if a server on `host` could be reached from other machines, or the host is not known here."""
    address = ipaddress.ip_address(_resolved(host, 0)[4][0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if not (mapped or address).is_loopback:
        what = f"whoever reaches {host} could run environments on this machine"
        fix = "ask for a token with --token-var NAME or --token-file PATH; --insecure serves without one all the same"
        raise InputError(Problem("--host", what, fix))


def _resolved(host: str, port: int) -> tuple[int, int, int, str, tuple[Any, ...]]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(Problem("--host", f"{host!r} is not known here: {error}")) from None


def listen(host: str, port: int, peer_timeout: float) -> socket.socket:
    """A listening socket whose connections notice a dead peer. Raises InputError if the address cannot be used."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    family, kind, protocol, _, address = _resolved(host, port)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_dead_peers(listener, peer_timeout)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise InputError(
                f"{where} is in use by another server: choose another --port, or 0 for a free one"
            ) from None
        raise InputError(f"{where} cannot be served on: {error}") from None
    listener.setblocking(False)
    return listener


def _notice_dead_peers(listener: socket.socket, seconds: float) -> None:
    """TCP's own keepalive, and a limit on how long what was sent may go unacknowledged; connections inherit both."""
    whole = max(1, round(seconds))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", whole),
        ("TCP_KEEPINTVL", max(1, whole // 3)),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 1000 * whole),
    ):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The URL of what listens there."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def check_certificate(certfile: str | None, keyfile: str | None) -> None:
    """Raises InputError for files that TLS cannot be served with; None for none."""
    if certfile is None:
        if keyfile is not None:
            what = "is a key without a certificate, and the server would not speak TLS"
            raise InputError(Problem("--ssl-keyfile", what, "add --ssl-certfile PATH"))
        return
    try:
        # Without an answer here OpenSSL asks the terminal for the password of a key that has one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password=lambda: "")
    except (OSError, ValueError) as error:
        what = f"{certfile} and its key cannot be used: {getattr(error, 'strerror', None) or error}"
        raise InputError(Problem("--ssl-certfile", what, "a PEM certificate and its key without a password")) from None


def _allow_many_files() -> None:
    """Raise the soft limit of open files: a session is a socket here, and a few more with its environment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
