"""Free ports of this machine, for those who must know a port before anything listens on it."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Below the ports that outgoing connections are given, which come and go by the hundred on a busy machine.
PORTS = range(20_000, 32_000)


def free_ports(names: Iterable[str], host: str, *, among: range = PORTS) -> dict[str, str]:
    """Return a different free port for each name. Somebody else may take one meanwhile; then its user says so."""
    candidates = iter(random.sample(among, len(among)))
    with contextlib.ExitStack() as held:
        return {name: str(_hold_one(held, host, candidates)) for name in names}


def _hold_one(held: contextlib.ExitStack, host: str, candidates: Iterator[int]) -> int:
    """Take the first candidate that is free, until the stack ends."""
    for port in candidates:
        with contextlib.suppress(OSError):
            held.enter_context(contextlib.closing(socket.create_server((host, port))))
            return port
    message = f"no port of {host} that may be taken is free"
    raise OSError(message)
