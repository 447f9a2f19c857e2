"""Noticing a peer that is gone without a word: the kernel asks idle connections, and gives up on unanswered data.

Without this a connection whose other end lost its power or its network looks alive for hours.
"""

from __future__ import annotations

import socket

# Silence after which the peer is asked, between two questions, and questions without an answer.
IDLE_SECONDS = 15
INTERVAL_SECONDS = 5
PROBES = 3
# What was sent and is not acknowledged for so long ends the connection.
USER_TIMEOUT_SECONDS = 20
# Linux has all of them; macOS lacks some.
_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPINTVL": INTERVAL_SECONDS,
    "TCP_KEEPCNT": PROBES,
}


def enable_keepalive(connection: socket.socket, *, unanswered_seconds: float = USER_TIMEOUT_SECONDS) -> None:
    """Have the kernel notice a peer that is gone; a socket of this machine needs none of it.

    What was sent and is neither acknowledged nor taken for `unanswered_seconds` ends the connection.
    """
    if connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**_OPTIONS, "TCP_USER_TIMEOUT": int(unanswered_seconds * 1000)}.items():
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
