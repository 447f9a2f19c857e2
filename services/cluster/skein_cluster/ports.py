"""Free ports of this machine, for those who must know a port before anything listens on it."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def free_ports(names: Iterable[str], host: str) -> dict[str, str]:
    """Return a different free port for each name. Somebody else may take one meanwhile; then its user says so."""
    with contextlib.ExitStack() as held:
        return {
            name: str(held.enter_context(contextlib.closing(socket.create_server((host, 0)))).getsockname()[1])
            for name in names
        }
