"""TCP keepalive: the kernel probes idle connections, and gives up on unacknowledged data.

Without it a connection to a peer that lost its power or its network looks alive for hours.
"""

from __future__ import annotations

import socket

# Seconds of silence before the first probe, seconds between probes, and probes without an answer.
IDLE_SECONDS = 15
INTERVAL_SECONDS = 5
PROBES = 3
# Seconds after which unacknowledged data ends the connection.
USER_TIMEOUT_SECONDS = 20
# Linux has all of them; macOS lacks some.
_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPINTVL": INTERVAL_SECONDS,
    "TCP_KEEPCNT": PROBES,
}


def enable_keepalive(connection: socket.socket, *, unanswered_seconds: float = USER_TIMEOUT_SECONDS) -> None:
    """Enable keepalive on a TCP socket; a Unix socket is left as it is.

    Data that the peer neither acknowledges nor reads for `unanswered_seconds` ends the connection.
    """
    if connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_OPTIONS, "TCP_USER_TIMEOUT": int(unanswered_seconds * 1000)}.items():
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
