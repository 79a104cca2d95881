"""What all sessions with one task server share: where it and its token are, the deadlines and the size limit."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from agent_env.errors import Problem, Problems
from agent_env.tokens import TokenSource

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The largest frame OpenEnv's server accepts; we accept as much, sixteen times the default of `websockets`."""


@dataclass(frozen=True)
class Shared:
    """A task server as its clients see it. Hashable, picklable and free of secrets: it holds no token, only its place.

    Args:
        url: of the server, ``http://host:port`` or ``https://…``, with the path it is mounted under if there is one.
        token_var: the environment variable that holds the token the server asks for.
        token_file: the file that does, in its first line; read for each connection. Neither for a server without one.
        connect_timeout: seconds for a connection and its handshake.
        call_timeout: seconds for the answer to a tool call, a list of tools, a turn's end or an HTTP request.
        reset_timeout: seconds for the answer to a reset, and how long `opened` waits for a session by default.
        max_message_bytes: the largest message accepted; a larger answer costs its session.

    Raises:
        InputError: with every argument that cannot be used.
    """

    url: str
    token_var: str | None = None
    token_file: str | None = None
    connect_timeout: float = 10.0
    call_timeout: float = 120.0
    reset_timeout: float = 600.0
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def __post_init__(self) -> None:
        problems = Problems(_url_problems(self.url))
        problems.of(lambda: self.token_source)
        for name in ("connect_timeout", "call_timeout", "reset_timeout"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                problems.append(Problem(name, f"expected a positive number of seconds, got {value!r}"))
        size = self.max_message_bytes
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            problems.append(Problem("max_message_bytes", f"expected a positive number of bytes, got {size!r}"))
        problems.settle()

    @cached_property
    def token_source(self) -> TokenSource:
        """Where the token is; false for a server without one."""
        return TokenSource(self.token_var, self.token_file)

    @property
    def token(self) -> str | None:
        """The token, read from its place now; None if the server asks for none. Raises InputError."""
        return next(iter(self.token_source.read()), None)

    @property
    def headers(self) -> dict[str, str]:
        """The headers every request and handshake carries. Raises what `token` raises."""
        token = self.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    @property
    def base(self) -> str:
        """The URL without a slash at its end."""
        return self.url.rstrip("/")

    @property
    def socket_url(self) -> str:
        """Where sessions are opened."""
        return "ws" + self.base.removeprefix("http") + "/ws"

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine, where no proxy can be meant."""
        host = urlsplit(self.url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        # 0.0.0.0 and :: are what a server says that answers on every address; connecting to them stays here.
        return (mapped or address).is_loopback or address.is_unspecified


def _url_problems(url: str) -> list[Problem]:
    where, example = f"URL {url!r}", "write http://HOST:PORT"
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return [Problem(where, str(error), example)]
    if parts.username is not None or parts.password is not None:
        # Whoever reads the message should not learn the password from it.
        where = f"URL of {parts.hostname}"
        return [Problem(where, "holds a user or password", "put a token into a variable and name that")]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return [Problem(where, "is no http or https URL with a host", example)]
    if parts.query or parts.fragment or port == 0 or any(c.isspace() for c in url):
        return [Problem(where, "has a part that no server's address has", example)]
    return []
