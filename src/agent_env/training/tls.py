"""TLS to a task server: one way for its sockets and its HTTP to verify who answers."""

from __future__ import annotations

import functools
import ssl


@functools.cache
def context() -> ssl.SSLContext:
    """Verifies certificates and host names by the system's authorities; ``SSL_CERT_FILE`` names others.

    Made once in a process: reading the system's certificates takes tens of milliseconds.
    """
    return ssl.create_default_context()


def failure(error: BaseException) -> str | None:
    """What TLS itself found wrong, if that is what `error` comes from."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            reason = getattr(seen, "verify_message", "") or seen.reason or str(seen)
            return f"TLS failed ({reason}): is it https, with a certificate that SSL_CERT_FILE or the system knows?"
        seen = seen.__cause__ or seen.__context__
    return None
